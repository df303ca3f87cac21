package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

// TestPutFile_owner: a file is its owner's when it is made and after somebody took it.
func TestPutFile_owner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	f := plan.NewFile(filepath.Join(t.TempDir(), "a"), "0600", []byte("a\n"))
	f.UID, f.GID = 12345, 54321
	for range 2 {
		require.NoError(t, putFile(f))
		info, err := os.Lstat(f.Path)
		require.NoError(t, err)
		require.True(t, isOwner(info, owner{12345, 54321}))
		require.NoError(t, os.Chown(f.Path, 1, 1))
	}
}

// TestPutFile_deletes: a folder goes with all that is in it, a second time too, but never one at the root.
func TestPutFile_deletes(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "a/b"), 0o700))
	for range 2 {
		require.NoError(t, putFile(plan.File{Path: filepath.Join(folder, "a"), Directory: true, Action: plan.ActionDelete}))
		require.NoDirExists(t, filepath.Join(folder, "a"))
	}
	require.DirExists(t, folder)
	for _, path := range []string{"/", "/drover-none", "/drover-none/", "/drover-none/../drover-other", "//drover-none"} {
		require.ErrorContains(t, putFile(plan.File{Path: path, Directory: true, Action: plan.ActionDelete}), "is not deleted", path)
	}
}
