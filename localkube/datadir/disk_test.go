package datadir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/localkube/datadir"
)

func TestWrite_on_a_full_disk(t *testing.T) {
	root := onDisk(t)
	if root == "" {
		return
	}
	dir, err := datadir.Open(filepath.Join(root, "d"))
	require.NoError(t, err)
	want := datadir.Config{NodeName: "n", HTTPSPort: 6443}
	require.NoError(t, dir.SaveConfig(want))
	err = dir.Write(make([]byte, 1<<20), "etcd", "config.json")
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "writing "+dir.Path("etcd", "config.json")+": write "+dir.Path("etcd", ".tmp-"))
	require.NoFileExists(t, dir.Path("etcd", "config.json"))
	left, err := os.ReadDir(dir.Path("etcd"))
	require.NoError(t, err)
	require.Empty(t, left, "what did not fit is given back")

	require.NoError(t, os.WriteFile(filepath.Join(root, "filler"), nil, 0o600))
	for err == nil {
		err = fill(filepath.Join(root, "filler"))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, dir.SaveConfig(datadir.Config{NodeName: "other"}), "writing "+dir.Path("config.json"))
	have, known, err := dir.LoadConfig()
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, want, have, "the settings of before are still there")
}

func fill(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, 4096))
	return errors.Join(err, file.Close())
}

func TestOpen_where_nothing_can_be_written(t *testing.T) {
	root := onDisk(t)
	if root == "" {
		return
	}
	dir, err := datadir.Open(filepath.Join(root, "d"))
	require.NoError(t, err)
	require.NoError(t, dir.SaveConfig(datadir.Config{NodeName: "n"}))
	require.NoError(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	_, err = datadir.Open(filepath.Join(root, "new"))
	require.EqualError(t, err, "making data directory: mkdir "+filepath.Join(root, "new")+": read-only file system")
	_, err = datadir.Open(dir.Root())
	require.NoError(t, err, "it is there")
	_, err = dir.Lock()
	require.EqualError(t, err, "opening lock: open "+dir.Path("lock")+": read-only file system")
	_, err = dir.Settle(datadir.Config{})
	require.ErrorContains(t, err, "writing "+dir.Path("config.json")+": open "+dir.Path(".tmp-"))
	require.ErrorIs(t, err, unix.EROFS)
	_, err = dir.Make("logs")
	require.EqualError(t, err, "making "+dir.Path("logs")+": mkdir "+dir.Path("logs")+": read-only file system")
	cfg, known, err := dir.LoadConfig()
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, "n", cfg.NodeName, "looking is still possible")
}

func TestEmpty(t *testing.T) {
	missing, err := datadir.Locate(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		dir  datadir.Dir
		want bool
	}{
		"missing": {missing, true}, "new": {open(t), true}, "with a file": {withFile(t, "a"), false}, "with a hidden file": {withFile(t, ".a"), false},
		"with a folder": {withFile(t, "a/b"), false},
	} {
		got, err := tc.dir.Empty()
		require.NoError(t, err, name)
		require.Equal(t, tc.want, got, name)
	}
	file, err := datadir.Locate(withFile(t, "a").Path("a"))
	require.NoError(t, err)
	_, err = file.Empty()
	require.EqualError(t, err, "looking into data directory: open "+file.Root()+": not a directory")
}

func withFile(t *testing.T, path string) datadir.Dir {
	t.Helper()
	dir := open(t)
	require.NoError(t, dir.Write([]byte("x"), path))
	return dir
}

func TestSync(t *testing.T) {
	require.NoError(t, withFile(t, "a").Sync())
	missing, err := datadir.Locate("/nowhere/at/all")
	require.NoError(t, err)
	err = missing.Sync()
	require.EqualError(t, err, "syncing data directory: open /nowhere/at/all: no such file or directory")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Whoever reads a file while it is written anew sees the old or the new content.
func TestWriteFile_is_atomic(t *testing.T) {
	dir := open(t)
	const writers, rounds = 4, 50
	content := func(writer, round int) string {
		return strings.Repeat(fmt.Sprintf("%d/%d\n", writer, round), 1000)
	}
	require.NoError(t, dir.Write([]byte(content(0, 0)), "f"))
	done := make(chan struct{})
	var wait sync.WaitGroup
	failures := make(chan error, writers*rounds)
	for writer := range writers {
		wait.Go(func() {
			for round := range rounds {
				failures <- dir.Write([]byte(content(writer, round)), "f")
			}
		})
	}
	go func() { wait.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		raw, err := os.ReadFile(dir.Path("f"))
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(raw), "\n")
		require.Equal(t, strings.Repeat(first+"\n", 1000), string(raw))
	}
	for range writers * rounds {
		require.NoError(t, <-failures)
	}
	entries, err := os.ReadDir(dir.Root())
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
