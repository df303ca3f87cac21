package files_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/files"
)

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestServerFaults(t *testing.T) {
	content := strings.Repeat("driver", 1000)
	for name, test := range map[string]struct {
		fault  files.Fault
		status int
		body   string // what the answer begins with
		err    error
	}{
		"good":      {files.FaultNone, 200, content, nil},
		"missing":   {files.FaultMissing, 404, "404 page not found", nil},
		"html":      {files.FaultHTML, 200, "<!DOCTYPE html>", nil},
		"wrong":     {files.FaultWrong, 200, content[:100], nil},
		"truncated": {files.FaultTruncated, 200, content[:100], io.ErrUnexpectedEOF},
		"off":       {files.FaultOff, 0, "", io.EOF},
		"error":     {files.FaultError, 500, "Internal Server Error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := files.New()
			server.Put("drivers/a", []byte(content))
			require.NoError(t, server.SetFault(files.AllFiles, test.fault))
			endpoint := httptest.NewServer(server)
			defer endpoint.Close()
			status, body, err := get(t, endpoint.URL+"/drivers/a")
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.status, status)
			require.True(t, strings.HasPrefix(body, test.body), body)
			require.Equal(t, test.fault == files.FaultNone, body == content, "only a good download is whole")
			require.Equal(t, 1, server.Requests("drivers/a"))
		})
	}
}
