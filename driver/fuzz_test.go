package driver_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/driver"
)

// answer is a web server in memory.
type answer []byte

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a)), ContentLength: int64(len(a))}, nil
}

// Whatever a URL serves: no panic, no file outside the folder, nothing left after a failure, one file after success.
func FuzzFetch(f *testing.F) {
	program := hostELF("the driver")
	f.Add(program)
	f.Add(gzipped(f, program))
	f.Add(tarred(f, member{name: wanted, content: program}))
	f.Add(gzipped(f, tarred(f, member{name: "../" + wanted, content: program})))
	f.Add(tarred(f, member{name: wanted, link: "/etc/passwd"}))
	f.Add(zipped(f, member{name: "README"}, member{name: wanted, content: program}))
	f.Add(zipped(f, member{name: wanted, link: "/etc/passwd"}))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, content []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "dir")
		require.NoError(t, os.Mkdir(dir, 0o700))
		got, err := driver.Fetch(context.Background(), driver.FetchOptions{
			Name: "acme", URL: "https://drivers.example/x", SkipChecksum: true, Dir: dir, MaxBytes: 1 << 16, Transport: answer(content)})

		outside, readErr := os.ReadDir(parent)
		require.NoError(t, readErr)
		require.Len(t, outside, 1)
		inside, readErr := os.ReadDir(dir)
		require.NoError(t, readErr)
		if err != nil {
			require.NotEmpty(t, driver.ReasonOf(err), "%v", err)
			require.Empty(t, inside)
			return
		}
		require.Len(t, inside, 1)
		require.Equal(t, filepath.Join(dir, wanted), got.Path)
		require.LessOrEqual(t, got.Size, int64(1<<16))
	})
}
