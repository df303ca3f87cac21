package files_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/files"
)

// fetch gets a file from a real server and returns status, what came of the body, and how it ended.
func fetch(t *testing.T, s *httptest.Server, method, name string) (status int, body []byte, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/"+name, nil)
	require.NoError(t, err)
	response, err := s.Client().Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// Each fault must be one that a checksum or a status finds, whatever the file: otherwise a test of it tests nothing.
func TestEveryFaultIsFoundForEveryFile(t *testing.T) {
	for size, content := range map[string][]byte{"one byte": {1}, "small": []byte("a driver"), "large": bytes.Repeat([]byte("driver"), 1<<18)} {
		server := files.New()
		digest := server.Put("driver", content)
		s := httptest.NewTLSServer(server)
		for _, fault := range []files.Fault{files.FaultMissing, files.FaultHTML, files.FaultWrong, files.FaultTruncated, files.FaultOff, files.FaultError} {
			require.NoError(t, server.SetFault("driver", fault))
			status, body, err := fetch(t, s, http.MethodGet, "driver")
			sum := sha256.Sum256(body)
			found := err != nil || status != http.StatusOK || hex.EncodeToString(sum[:]) != digest
			require.True(t, found, "%s of a file of %s", fault, size)
		}
		require.NoError(t, server.SetFault("driver", files.FaultNone))
		status, body, err := fetch(t, s, http.MethodGet, "driver")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.True(t, bytes.Equal(content, body), size)
		s.Close()
	}
}

func TestAFileThatIsReplacedIsServedAnew(t *testing.T) {
	server := files.New()
	s := httptest.NewTLSServer(server)
	defer s.Close()
	seen := map[string]bool{}
	for _, content := range []string{"first", "second", ""} {
		digest := server.Put("driver", []byte(content))
		require.False(t, seen[digest])
		seen[digest] = true
		status, body, err := fetch(t, s, http.MethodGet, "driver")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, content, string(body))
	}
	server.Delete("driver")
	server.Delete("driver")
	status, _, err := fetch(t, s, http.MethodGet, "driver")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, 4, server.Requests("driver"))
	require.Empty(t, server.Names())
}

func TestHeadTellsTheSizeAlone(t *testing.T) {
	server := files.New()
	server.Put("driver", []byte("a driver"))
	s := httptest.NewTLSServer(server)
	defer s.Close()
	response, err := s.Client().Head(s.URL + "/driver")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, int64(8), response.ContentLength)
}

// TestAnyNameLeadsToOneFile puts a file under any name and finds it under the same, and under no other that leads elsewhere.
func TestAnyNameLeadsToOneFile(t *testing.T) {
	check := func(name string) {
		server := files.New()
		server.Put(name, []byte("content"))
		require.Len(t, server.Names(), 1)
		kept := server.Names()[0]
		require.False(t, strings.HasPrefix(kept, "/"))
		require.NotContains(t, strings.Split(kept, "/"), "..")
		require.Equal(t, strings.TrimPrefix(path.Clean("/"+kept), "/"), kept, "it is its own short form")
		server.Put(kept, []byte("other"))
		require.Len(t, server.Names(), 1, "it is the same file")
		server.Delete(name)
		require.Empty(t, server.Names())
	}
	for _, name := range []string{"a", "a/b", "../a", "/a", "a//b", "./a", "a/../b", "", "..", "a\x00b", "ä"} {
		check(name)
	}
}
