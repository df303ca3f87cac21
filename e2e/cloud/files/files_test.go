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
		check  func(t *testing.T, body string, err error)
	}{
		"good":    {files.FaultNone, 200, func(t *testing.T, body string, err error) { require.NoError(t, err); require.Equal(t, content, body) }},
		"missing": {files.FaultMissing, 404, func(t *testing.T, _ string, err error) { require.NoError(t, err) }},
		"html": {files.FaultHTML, 200, func(t *testing.T, body string, err error) {
			require.NoError(t, err)
			require.Contains(t, body, "<html>")
		}},
		"wrong": {files.FaultWrong, 200, func(t *testing.T, body string, err error) {
			require.NoError(t, err)
			require.Len(t, body, len(content))
			require.NotEqual(t, content, body)
		}},
		"truncated": {files.FaultTruncated, 200, func(t *testing.T, _ string, err error) { require.ErrorIs(t, err, io.ErrUnexpectedEOF) }},
		"off":       {files.FaultOff, 0, func(t *testing.T, _ string, err error) { require.ErrorIs(t, err, io.EOF) }},
		"error":     {files.FaultError, 500, func(t *testing.T, _ string, err error) { require.NoError(t, err) }},
	} {
		t.Run(name, func(t *testing.T) {
			server := files.New()
			server.Put("drivers/a", []byte(content))
			require.NoError(t, server.SetFault(files.AllFiles, test.fault))
			endpoint := httptest.NewServer(server)
			defer endpoint.Close()
			status, body, err := get(t, endpoint.URL+"/drivers/a")
			require.Equal(t, test.status, status)
			test.check(t, body, err)
			require.Equal(t, 1, server.Requests("drivers/a"))
		})
	}
}

func TestOwnFaultWinsAndUnknownOnesAreRefused(t *testing.T) {
	server := files.New()
	server.Put("a", []byte("a"))
	server.Put("b", []byte("b"))
	require.NoError(t, server.SetFault("a", files.FaultMissing))
	require.Error(t, server.SetFault("a", "nonsense"))
	endpoint := httptest.NewServer(server)
	defer endpoint.Close()
	status, _, err := get(t, endpoint.URL+"/a")
	require.NoError(t, err)
	require.Equal(t, 404, status)
	status, _, err = get(t, endpoint.URL+"/b")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, []string{"a", "b"}, server.Names())
	server.Delete("b")
	status, _, err = get(t, endpoint.URL+"/b")
	require.NoError(t, err)
	require.Equal(t, 404, status)
}
