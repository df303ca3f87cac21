package driver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver"
)

// systemProgram is a real program of this computer, for what only the kernel can judge.
func systemProgram(t *testing.T) []byte {
	t.Helper()
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program called true here")
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if runtime.GOOS != "linux" || !strings.HasPrefix(string(content), "\x7fELF") || strings.Contains(filepath.Base(path), "box") {
		t.Skip("true is no program of its own here")
	}
	return content
}

// A driver's whole way: downloaded, verified, unpacked, run, cached, loaded elsewhere when its URL is gone, and run again.
func TestDriverFromURLToProcess(t *testing.T) {
	program := systemProgram(t)
	packed := gzipped(t, tarred(t, member{name: "LICENSE", content: []byte("x")}, member{name: "dist/" + wanted, content: program}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed) }))
	fetched, err := driver.Fetch(t.Context(), driver.FetchOptions{Name: "acme", URL: server.URL, Checksum: sha256Hex(packed), Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), fetched.Path).Run(), "it is executable and closed")
	require.Equal(t, sha256Hex(program), fetched.Digest)

	client := memory()
	require.NoError(t, driver.Store(t.Context(), client, fetched))
	server.Close()
	require.NoError(t, os.Remove(fetched.Path))
	loaded, err := driver.Load(t.Context(), client, "acme", fetched.Digest, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, exec.CommandContext(t.Context(), loaded.Path).Run())
	require.Equal(t, fetched.Size, loaded.Size)
	require.Equal(t, fetched.Digest, loaded.Digest)
	require.Equal(t, filepath.Base(fetched.Path), filepath.Base(loaded.Path))
}

// Jobs of one pod share a folder; none sees another's half.
func TestFetchManyAtOnce(t *testing.T) {
	dir, contents := t.TempDir(), map[string][]byte{}
	mux := http.NewServeMux()
	for i := range 6 {
		name := fmt.Sprintf("acme%d", i)
		contents[name] = hostELF(strings.Repeat(name, 10_000))
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(contents[name]) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for range 3 {
		for name, content := range contents {
			all.Go(func() {
				got, err := driver.Fetch(context.Background(), driver.FetchOptions{Name: name, URL: server.URL + "/" + name, Checksum: sha256Hex(content), Dir: dir})
				if err != nil || got.Digest != sha256Hex(content) {
					t.Errorf("%s: %+v %v", name, got, err)
				}
			})
		}
	}
	all.Wait()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, len(contents), "one file for each, and no download is left")
	for name, content := range contents {
		data, err := os.ReadFile(filepath.Join(dir, driver.BinaryPrefix+name))
		require.NoError(t, err)
		require.Equal(t, content, data)
	}
}

// A Job that is told to stop in the middle leaves nothing, and says that it was told.
func TestFetchIsCancelled(t *testing.T) {
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("\x7fELF"))
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	dir := t.TempDir()
	_, err := driver.Fetch(ctx, driver.FetchOptions{Name: "acme", URL: server.URL, SkipChecksum: true, Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	require.Empty(t, left)
	_, err = driver.Load(ctx, &faulty{ConfigMaps: memory(), err: ctx.Err()}, "acme", sha256Hex(nil), dir)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, driver.IsTemporary(err), "the next Job may load it")
}
