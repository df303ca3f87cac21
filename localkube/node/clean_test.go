package node

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

// waiting starts a process that lives until it is killed or the test ends; it
// has the given name and last argument.
func waiting(t *testing.T, name, last string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Args = []string{name, "-c", "read never", last}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close() })
	return cmd
}

func TestKillShims_spares_those_of_others(t *testing.T) {
	dir, other := datadir.Dir(t.TempDir()), datadir.Dir(t.TempDir())
	ours := waiting(t, "/usr/bin/containerd-shim-runc-v2", socket(dir))
	spared := []*exec.Cmd{waiting(t, "/usr/bin/containerd-shim-runc-v2", socket(other)), waiting(t, "/usr/bin/ctr", socket(dir))}
	require.NoError(t, killShims(dir))
	require.EqualError(t, ours.Wait(), "signal: killed")
	for _, process := range spared {
		require.NoError(t, process.Process.Kill(), "it has not ended")
		_ = process.Wait() // it was killed
	}
}

// What is removed is what the machine did not have before, and no guess.
func TestClean(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	require.NoError(t, dir.Write([]byte("x"), "kept"))
	require.NoError(t, Clean(t.Context(), dir, Runtime{}), "it was no node")
	require.NoError(t, unmountBelow(string(dir)))
	require.FileExists(t, dir.Path("kept"))
	for _, bad := range []string{"", "{", `{"settings":[]}`, `{"absent":"x"}`} {
		require.NoError(t, dir.Write([]byte(bad), "node", "restore.json"))
		require.ErrorContains(t, Clean(t.Context(), dir, Runtime{}), "reading the machine's former state", bad)
		require.FileExists(t, marker(dir))
	}
	require.NoError(t, removeFixedDirs(before{Absent: []string{"/etc", string(dir)}}), "only names we know, whatever the file says")
	require.DirExists(t, "/etc")
	require.NoError(t, restoreNetns(before{}), "netns was there before us")
	require.NoError(t, os.MkdirAll(dir.Path("dir"), 0o700))
	require.NoError(t, os.Symlink(dir.Path("kept"), dir.Path("dir", "link")))
	require.NoError(t, removeEmpty(dir.Path("dir")))
	require.FileExists(t, dir.Path("kept"), "links are not followed")
}
