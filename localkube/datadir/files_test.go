package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

func TestLocate(t *testing.T) {
	longest := "/" + strings.Repeat("x", 71)
	dir, err := datadir.Locate(longest)
	require.NoError(t, err)
	require.Equal(t, longest, dir.Root())
	require.False(t, dir.Exists())
	_, err = datadir.Locate(longest + "x")
	require.ErrorContains(t, err, "at most 72")

	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	dir, err = datadir.Locate("data/../d")
	require.NoError(t, err)
	require.Equal(t, filepath.Join(here, "d"), dir.Root(), "children run elsewhere, so the path is absolute")
	require.NoDirExists(t, dir.Root(), "locating makes nothing")
}

func TestOpen(t *testing.T) {
	dir := open(t)
	require.True(t, dir.Exists())
	info, err := os.Stat(dir.Root())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "there are keys in it")

	require.NoError(t, dir.Write([]byte("x"), "file"))
	_, err = datadir.Open(dir.Path("file"))
	require.ErrorContains(t, err, "making data directory")
	file, err := datadir.Locate(dir.Path("file"))
	require.NoError(t, err)
	require.False(t, file.Exists(), "a file is no data directory")
	_, err = datadir.Open("")
	require.ErrorContains(t, err, "--data-dir")
}

func TestPaths(t *testing.T) {
	dir, err := datadir.Locate("/d")
	require.NoError(t, err)
	require.Equal(t, "/d", dir.Path())
	require.Equal(t, "/d/a/b", dir.Path("a", "b"))
	require.Equal(t, "/d/kubeconfig", dir.Kubeconfig())
	require.Equal(t, "/d/logs/etcd.log", dir.Log("etcd"))
}

func TestMake(t *testing.T) {
	dir := open(t)
	path, err := dir.Make("a", "b")
	require.NoError(t, err)
	require.DirExists(t, path)
	_, err = dir.Make("a", "b")
	require.NoError(t, err)
	require.NoError(t, dir.Write(nil, "file"))
	_, err = dir.Make("file", "b")
	require.ErrorContains(t, err, "making "+dir.Path("file", "b"))
}

func TestWriteFile_leaves_nothing_when_it_fails(t *testing.T) {
	dir := open(t)
	require.NoError(t, dir.Write([]byte("kept"), "target", "file"))
	require.ErrorContains(t, dir.Write([]byte("x"), "target"), "writing "+dir.Path("target"))
	require.ErrorContains(t, dir.Write([]byte("x"), "target", "file", "below"), "making directory of")
	raw, err := os.ReadFile(dir.Path("target", "file"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(raw))
	entries, err := os.ReadDir(dir.Root())
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")
}

func TestWriteFile_replaces_a_link_instead_of_following_it(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("theirs"), 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, datadir.WriteFile(link, []byte("ours")))
	raw, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "theirs", string(raw))
}

func TestLockFile_of_a_killed_holder_is_free(t *testing.T) {
	dir := open(t)
	require.NoError(t, dir.Write([]byte("4194304\n"), "lock"))
	pid, held, err := dir.Holder()
	require.NoError(t, err)
	require.False(t, held)
	require.Zero(t, pid, "what the file says does not count, the kernel's lock does")
	lock, err := dir.Lock()
	require.NoError(t, err)
	require.NoError(t, lock.Release())
	raw, err := os.ReadFile(dir.Path("lock"))
	require.NoError(t, err)
	require.Empty(t, raw)
}

func TestLockFile_that_names_no_process(t *testing.T) {
	dir := open(t)
	lock, err := datadir.LockFile(dir.Path("lock"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Release()) })
	// Truncated in place: replacing the file would be another lock.
	require.NoError(t, os.WriteFile(dir.Path("lock"), []byte("no pid"), 0o600))
	_, err = dir.Lock()
	locked := &datadir.LockedError{}
	require.ErrorAs(t, err, &locked)
	require.Zero(t, locked.PID)
	require.Equal(t, dir.Path("lock"), locked.Path)
}

func TestLockFile_reports_what_it_cannot_open(t *testing.T) {
	dir := open(t)
	_, err := dir.Make("lock")
	require.NoError(t, err)
	_, err = dir.Lock()
	require.ErrorContains(t, err, "opening lock")
	_, err = dir.AwaitLock(t.Context())
	require.ErrorContains(t, err, "opening lock", "it does not wait for what never comes")
	require.NoError(t, dir.Write(nil, "file"))
	_, err = datadir.LockFile(dir.Path("file", "lock"))
	require.ErrorContains(t, err, "making directory of")
}

func TestLockedError_names_the_process(t *testing.T) {
	require.EqualError(t, &datadir.LockedError{Path: "/d/lock", PID: 7}, "/d/lock is held by process 7")
}
