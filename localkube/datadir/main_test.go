package datadir_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/localkube/datadir"
)

// holderVariable makes the test binary a process that holds a lock until it is
// killed; insideVariable one that runs a test in namespaces of its own.
const (
	holderVariable = "LOCALKUBE_TEST_HOLDER"
	insideVariable = "LOCALKUBE_TEST_INSIDE"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(holderVariable); path != "" {
		if _, err := datadir.LockFile(path); err != nil {
			os.Exit(1)
		}
		_, _ = fmt.Println("locked")
		select {}
	}
	os.Exit(m.Run())
}

// heldElsewhere makes another process hold a directory's lock; kill ends it.
func heldElsewhere(t *testing.T, dir datadir.Dir) (pid int, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+dir.Path("lock"))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill() // it may have been killed by the test
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	said := make([]byte, 7)
	_, err = out.Read(said)
	require.NoError(t, err)
	require.Equal(t, "locked\n", string(said))
	return cmd.Process.Pid, kill
}

// onDisk runs the test again on a file system of its own, 64 KiB large and
// mounted at dir; it returns "" outside. It takes no privilege, where the
// kernel gives users namespaces.
func onDisk(t *testing.T) (dir string) {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		dir = t.TempDir()
		require.NoError(t, unix.Mount("small", dir, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
		return dir
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("this machine gives no namespaces: %v", err)
	}
	require.NoError(t, err, "%s", out)
	return ""
}

func open(t *testing.T) datadir.Dir {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	return dir
}
