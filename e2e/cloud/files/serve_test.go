package files_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/files"
)

func TestNamesAreThoseOfAURL(t *testing.T) {
	for name, asked := range map[string]string{
		"a":             "/a",
		"/b/c":          "/b/c",
		"d//e":          "/d/e",
		"../../f":       "/f",
		"with space.gz": "/with%20space.gz",
	} {
		t.Run(name, func(t *testing.T) {
			server := files.New()
			server.Put(name, []byte("content"))
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, asked, nil))
			require.Equal(t, 200, recorder.Code)
			require.Equal(t, "content", recorder.Body.String())
			require.Equal(t, 1, server.Requests(name))
			require.Len(t, server.Names(), 1)
		})
	}
}

func TestMethods(t *testing.T) {
	for method, want := range map[string]int{
		http.MethodGet: 200, http.MethodHead: 200, http.MethodPut: 405, http.MethodPost: 405, http.MethodDelete: 405,
	} {
		t.Run(method, func(t *testing.T) {
			server := files.New()
			server.Put("a", []byte("content"))
			recorder := httptest.NewRecorder()
			server.ServeHTTP(recorder, httptest.NewRequest(method, "/a", strings.NewReader("other")))
			require.Equal(t, want, recorder.Code)
			require.Equal(t, []string{"a"}, server.Names())
		})
	}
}

func TestADownloadCanBeResumed(t *testing.T) {
	server := files.New()
	server.Put("a", []byte("0123456789"))
	request := httptest.NewRequest(http.MethodGet, "/a", nil)
	request.Header.Set("Range", "bytes=4-")
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, request)
	require.Equal(t, http.StatusPartialContent, recorder.Code)
	require.Equal(t, "456789", recorder.Body.String())
}

func TestPutTellsTheDigestAndKeepsACopy(t *testing.T) {
	server := files.New()
	content := []byte("driver")
	sum := sha256.Sum256(content)
	require.Equal(t, hex.EncodeToString(sum[:]), server.Put("a", content))
	content[0] = 'X'
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/a", nil))
	require.Equal(t, "driver", recorder.Body.String())
}

func TestAFaultEndsWhenItIsSetToNone(t *testing.T) {
	server := files.New()
	server.Put("a", []byte("content"))
	status := func() int {
		recorder := httptest.NewRecorder()
		server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/a", nil))
		return recorder.Code
	}
	require.NoError(t, server.SetFault("/a", files.FaultError))
	require.Equal(t, 500, status())
	require.NoError(t, server.SetFault(files.AllFiles, files.FaultMissing))
	require.Equal(t, 500, status(), "its own goes first")
	require.NoError(t, server.SetFault("a", files.FaultNone))
	require.Equal(t, 404, status())
	require.EqualError(t, server.SetFault("a", "nonsense"), `setting download fault: there is no fault "nonsense"`)
	require.NoError(t, server.SetFault(files.AllFiles, files.FaultNone))
	require.Equal(t, 200, status())
}

func TestConcurrentUse(t *testing.T) {
	server := files.New()
	server.Put("a", []byte("content"))
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/a", nil))
			server.Put("b", []byte("other"))
		})
	}
	group.Wait()
	require.Equal(t, 50, server.Requests("a"))
	require.Equal(t, []string{"a", "b"}, server.Names())
}
