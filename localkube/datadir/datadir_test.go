package datadir_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

func TestLocate_refuses_what_sockets_cannot_name(t *testing.T) {
	_, err := datadir.Locate("/" + strings.Repeat("x", 100))
	require.ErrorContains(t, err, "unix sockets")
	_, err = datadir.Locate("")
	require.ErrorContains(t, err, "--data-dir")
}

func TestLock(t *testing.T) {
	dir := open(t)
	pid, held, err := dir.Holder()
	require.NoError(t, err)
	require.False(t, held)
	require.Zero(t, pid)

	lock, err := dir.Lock()
	require.NoError(t, err)
	pid, held, err = dir.Holder()
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, os.Getpid(), pid)

	_, err = dir.Lock()
	locked := &datadir.LockedError{}
	require.ErrorAs(t, err, &locked)
	require.Equal(t, os.Getpid(), locked.PID)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dir.AwaitLock(canceled)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, lock.Release())
	lock, err = dir.AwaitLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lock.Release())
}

func TestSettle(t *testing.T) {
	dir := open(t)
	want := datadir.Config{NodeName: "n", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17"}
	first, err := dir.Settle(want)
	require.NoError(t, err)
	require.NotZero(t, first.HTTPSPort)
	require.NotEqual(t, first.EtcdClientPort, first.EtcdPeerPort)

	again, err := dir.Settle(datadir.Config{})
	require.NoError(t, err)
	require.Equal(t, first, again, "nothing changes when nothing is asked for")

	moved, err := dir.Settle(datadir.Config{HTTPSPort: 12345})
	require.NoError(t, err)
	require.Equal(t, 12345, moved.HTTPSPort)

	for _, other := range []datadir.Config{{PodCIDR: "198.18.0.0/17"}, {ServiceCIDR: "198.18.0.0/17"}, {NodeName: "m"}} {
		_, err = dir.Settle(other)
		require.ErrorContains(t, err, "cannot become")
	}
}

func TestWrite_keeps_files_private(t *testing.T) {
	dir := open(t)
	require.NoError(t, dir.Write([]byte("x"), "a", "b"))
	require.NoError(t, dir.Write([]byte("y"), "a", "b"))
	info, err := os.Stat(dir.Path("a", "b"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	entries, err := os.ReadDir(dir.Path("a"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary files stay")
}
