package sshkeys_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCopy_where_things_go(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	local, remote := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(local, "file"), "first")
	for name, c := range map[string]struct{ target, want string }{
		"into a directory":       {target: remote, want: filepath.Join(remote, "file")},
		"under another name":     {target: filepath.Join(remote, "other"), want: filepath.Join(remote, "other")},
		"a name with characters": {target: filepath.Join(remote, "it's; $x"), want: filepath.Join(remote, "it's; $x")},
	} {
		require.NoError(t, client.Upload(t.Context(), os.DirFS(local), "file", c.target, nil), name)
		content, err := os.ReadFile(c.want)
		require.NoError(t, err, name)
		require.Equal(t, "first", string(content), name)
	}
}

func TestCopy_fails(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	remote := t.TempDir()
	writeFile(t, filepath.Join(remote, "file"), "content")
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })

	missing := filepath.Join(remote, "none", "file")
	require.ErrorContains(t, client.WriteFile(t.Context(), missing, nil, 0o600), "writing "+missing+" on the server")
	require.ErrorIs(t, client.Download(t.Context(), missing, root, "x", nil), os.ErrNotExist)
	require.Error(t, client.Download(t.Context(), filepath.Join(remote, "file"), root, "../x", nil), "nothing leads out of the target")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, client.WriteFile(cancelled, filepath.Join(remote, "late"), nil, 0o600), context.Canceled)
	require.NoFileExists(t, filepath.Join(remote, "late"))
}
