package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
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
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // some tests have waited
	})
	return cmd
}

func requireKilled(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Wait() // the state says how it ended
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGKILL, status.Signal())
}

func TestKillShims_spares_those_of_others(t *testing.T) {
	l, other := newLayout(t), newLayout(t)
	ours := waiting(t, "/usr/bin/containerd-shim-runc-v2", l.containerdSocket())
	theirs := waiting(t, "/usr/bin/containerd-shim-runc-v2", other.containerdSocket())
	noShim := waiting(t, "/usr/bin/ctr", l.containerdSocket())
	require.NoError(t, killShims(l))
	requireKilled(t, ours)
	for _, spared := range []*exec.Cmd{theirs, noShim} {
		require.NoError(t, spared.Process.Signal(syscall.Signal(0)))
		require.FileExists(t, filepath.Join("/proc", strconv.Itoa(spared.Process.Pid), "exe"))
	}
	require.NoError(t, killShims(l), "nothing is left to kill")
}

func TestRemoveCgroup(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "kubepods", "burstable", "pod1")
	require.NoError(t, os.MkdirAll(deep, 0o700))
	require.NoError(t, removeCgroup(t.Context(), filepath.Join(root, "kubepods")))
	require.NoDirExists(t, filepath.Join(root, "kubepods"))
	require.NoError(t, removeCgroup(t.Context(), filepath.Join(root, "kubepods")), "it is idempotent")
}

func TestRemoveCgroup_kills_what_runs_in_it(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod1")
	child := waiting(t, "sh", "x")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	procs := "words are no pids\n" + strconv.Itoa(child.Process.Pid) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(procs), 0o600))
	require.Error(t, removeCgroup(t.Context(), dir), "outside cgroupfs a control file keeps the directory")
	requireKilled(t, child)
}

func TestUnmountBelow_without_mounts(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, l.Write([]byte("x"), "kept"))
	require.NoError(t, unmountBelow(l.Root()))
	require.FileExists(t, l.Path("kept"))
}

func TestClean_of_what_was_no_node(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, l.Write([]byte("x"), "kept"))
	require.NoError(t, Clean(t.Context(), l.Dir))
	require.NoError(t, clean(t.Context(), l))
	require.FileExists(t, l.Path("kept"))
}

func TestClean_does_not_guess(t *testing.T) {
	l := newLayout(t)
	for _, bad := range []string{"", "{", `{"settings":[]}`, `{"absent":"x"}`} {
		require.NoError(t, l.Write([]byte(bad), "node", "restore.json"))
		require.ErrorContains(t, Clean(t.Context(), l.Dir), "reading the machine's former state", bad)
		require.FileExists(t, l.marker())
	}
}

func TestRemember(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, remember(l))
	state, was, err := recall(l)
	require.NoError(t, err)
	require.True(t, was)
	require.Contains(t, state.Settings, "net/ipv4/ip_forward")
	require.Subset(t, touched, keys(state.Settings))
	for _, dir := range state.Absent {
		require.Contains(t, fixedDirs, dir)
		require.NoDirExists(t, dir)
	}
}

func keys(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	return names
}

func TestRemoveFixedDirs_keeps_others(t *testing.T) {
	require.NoError(t, removeFixedDirs(before{}))
	require.NoError(t, removeFixedDirs(before{Absent: []string{"/etc", t.TempDir()}}), "only names we know, whatever the file says")
	require.DirExists(t, "/etc")
	require.NoError(t, restoreNetns(before{}), "netns was there before us")
}

func TestRemoveEmpty_follows_no_links(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, l.Write([]byte("x"), "file"))
	require.ErrorContains(t, removeEmpty(l.Path("file")), "listing what the node left")
	require.NoError(t, os.MkdirAll(l.Path("dir"), 0o700))
	require.NoError(t, os.Symlink(l.Path("file"), l.Path("dir", "link")))
	require.NoError(t, removeEmpty(l.Path("dir")))
	require.FileExists(t, l.Path("file"), "links are not followed")
	require.DirExists(t, l.Path("dir"))
}

func TestMountPoints_leaves_the_root(t *testing.T) {
	check := func(mountinfo, root string) {
		for _, point := range mountPoints(mountinfo, root) {
			require.Greater(t, len(point), len(root), "the root itself is never unmounted")
			require.Equal(t, root+"/", point[:len(root)+1])
		}
	}
	check("30 22 0:30 / /data/a rw - tmpfs tmpfs rw\n", "/data")
	check(`31 22 0:31 / /data/a\040b rw`, "/data")
	check("1 2 3 4", "")
}
