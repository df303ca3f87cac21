package files_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/files"
)

func TestServer(t *testing.T) {
	s := files.New()
	require.Equal(t, "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73", s.Put("dir/../driver", []byte("content")))
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	status, body := get(http.MethodGet, "/driver")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "content", body)
	status, _ = get(http.MethodPost, "/driver")
	require.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = get(http.MethodGet, "/../etc/passwd")
	require.Equal(t, http.StatusNotFound, status)
	require.NoError(t, s.SetFault("driver", files.FaultHTML))
	_, body = get(http.MethodGet, "/driver")
	require.Contains(t, body, "<!DOCTYPE html>")
	require.NoError(t, s.SetFault("driver", files.FaultMissing))
	status, _ = get(http.MethodGet, "/driver")
	require.Equal(t, http.StatusNotFound, status)
	require.EqualError(t, s.SetFault("driver", "slow"), `setting download fault: unknown fault "slow"`)
}
