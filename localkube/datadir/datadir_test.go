package datadir

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLocate(t *testing.T) {
	for path, want := range map[string]string{"": "set --data-dir", "/" + strings.Repeat("x", maxRoot): "unix sockets below it allow at most 72"} {
		_, err := Locate(path)
		require.ErrorContains(t, err, want)
	}
	dir, err := Locate("some")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(string(dir)))
}

// A lock is had by one process, which the next is told, and goes with it.
func TestLock(t *testing.T) {
	if held := os.Getenv("LOCALKUBE_TEST_HOLDER"); held != "" {
		lock, err := Dir(held).Lock()
		require.NoError(t, err)
		require.NoError(t, Dir(held).Write(nil, "held"))
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
		require.NoError(t, lock.Close())
	}
	dir := Dir(filepath.Join(t.TempDir(), "d"))
	holder := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	holder.Env = append(os.Environ(), "LOCALKUBE_TEST_HOLDER="+string(dir))
	_, err := holder.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(dir.Path("held")); return err == nil }, time.Minute, 10*time.Millisecond)
	_, err = dir.Lock()
	require.EqualError(t, err, "process "+strconv.Itoa(holder.Process.Pid)+" already runs localkube on "+string(dir)+
		": stop it with localkube down --data-dir "+string(dir))
	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait() // it was killed
	lock, err := dir.Lock()
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestPorts_are_picked_once(t *testing.T) {
	dir := Dir(t.TempDir())
	first, err := dir.Ports()
	require.NoError(t, err)
	require.Len(t, map[int]bool{first.HTTPS: true, first.EtcdClient: true, first.EtcdPeer: true}, 3)
	taken, err := net.Listen("tcp", ":"+strconv.Itoa(first.HTTPS))
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	again, err := dir.Ports()
	require.NoError(t, err)
	require.Equal(t, first, again)
	info, err := os.Stat(dir.Path("ports.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.WriteFile(dir.Path("ports.json"), []byte("{"), 0o600))
	_, err = dir.Ports()
	require.Error(t, err)
}
