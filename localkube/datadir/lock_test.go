package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/datadir"
)

func TestLock_of_another_process(t *testing.T) {
	dir := open(t)
	pid, kill := heldElsewhere(t, dir)

	have, held, err := dir.Holder()
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, pid, have)
	_, err = dir.Lock()
	locked := (*datadir.LockedError)(nil)
	require.ErrorAs(t, err, &locked)
	require.EqualError(t, locked, dir.Path("lock")+" is held by process "+strconv.Itoa(pid))
	require.True(t, locked.Names())

	kill()
	lock, err := dir.AwaitLock(t.Context())
	require.NoError(t, err, "the kernel takes the lock of the dead back")
	raw, err := os.ReadFile(dir.Path("lock"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid())+"\n", string(raw))
	require.NoError(t, lock.Release())
}

func TestAwaitLock_waits_for_the_holder(t *testing.T) {
	dir := open(t)
	lock, err := dir.Lock()
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		second, err := dir.AwaitLock(t.Context())
		if err == nil {
			err = second.Release()
		}
		got <- err
	}()
	require.Empty(t, got)
	require.NoError(t, lock.Release())
	require.NoError(t, <-got)
}

func TestNames(t *testing.T) {
	dir := open(t)
	lock, err := dir.Lock()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Release()) })
	for name, tc := range map[string]struct {
		path string
		pid  int
		want bool
	}{
		"the holder":             {dir.Path("lock"), os.Getpid(), true},
		"a stranger":             {dir.Path("lock"), os.Getppid(), false},
		"nobody":                 {dir.Path("lock"), 0, false},
		"a process that is none": {dir.Path("lock"), 1 << 22, false},
		"a file that is none":    {dir.Path("gone"), os.Getpid(), false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, (&datadir.LockedError{Path: tc.path, PID: tc.pid}).Names())
		})
	}
}

func TestNames_of_the_same_file_under_another_path(t *testing.T) {
	dir := open(t)
	lock, err := dir.Lock()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Release()) })
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir.Root(), link))
	require.True(t, (&datadir.LockedError{Path: filepath.Join(link, "lock"), PID: os.Getpid()}).Names())
}

func TestLockedError_reads_whatever_the_file_says(t *testing.T) {
	for content, want := range map[string]int{
		"": 0, "\n": 0, "42": 42, " 42 \n": 42, "-1": 0, "-42\n": 0, "12x": 0, "99999999999999999999": 0, "1 2": 0,
	} {
		dir := open(t)
		lock, err := dir.Lock()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir.Path("lock"), []byte(content), 0o600))
		_, err = dir.Lock()
		locked := (*datadir.LockedError)(nil)
		require.ErrorAs(t, err, &locked)
		require.Equal(t, want, locked.PID, "%q: a wrong number may be somebody's, a negative one a whole group's", content)
		pid, held, err := dir.Holder()
		require.NoError(t, err)
		require.True(t, held, "held is held, whatever the file says")
		require.Equal(t, want, pid)
		require.NoError(t, lock.Release())
	}
	require.EqualError(t, &datadir.LockedError{Path: "/d/lock"}, "/d/lock is held by a process that does not say which")
}

func TestLock_is_had_by_one(t *testing.T) {
	dir := open(t)
	var won, lost atomic.Int32
	var wait sync.WaitGroup
	var winner *datadir.Lock
	for range 32 {
		wait.Go(func() {
			lock, err := dir.Lock()
			if locked := (*datadir.LockedError)(nil); errors.As(err, &locked) {
				lost.Add(1)
			}
			if err == nil {
				won.Add(1)
				winner = lock
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 31, lost.Load())
	require.NoError(t, winner.Release())
}

func TestHolder_of_what_cannot_be_asked(t *testing.T) {
	dir := open(t)
	require.NoError(t, dir.Write(nil, "file"))
	file, err := datadir.Locate(dir.Path("file"))
	require.NoError(t, err)
	_, _, err = file.Holder()
	require.EqualError(t, err, "opening lock: open "+dir.Path("file", "lock")+": not a directory")
}
