package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// orphansVariable makes the test binary what a sandbox's first process is: the
// parent of orphans. One has ended already, the other ends when told.
const orphansVariable = "LOCALKUBE_TEST_ORPHANS"

const orphans = `sh -c 'exit 3' & echo $! >zombie.new; mv zombie.new zombie
sh -c 'read line <fifo' & echo $! >orphan.new; mv orphan.new orphan`

func TestMain(m *testing.M) {
	dir := os.Getenv(orphansVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err == nil {
		_, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", orphans}, &syscall.ProcAttr{Dir: dir, Env: os.Environ()})
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	main()
	os.Exit(0)
}

// gone waits until no process, not even a dead one, has the number in a file.
func gone(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(file)
		if err != nil {
			return false // it is not born yet
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		require.NoError(t, err)
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}, time.Minute, time.Millisecond, file)
}

func TestPause_buries_orphans_and_ends_when_told(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
			pause := exec.Command(os.Args[0])
			pause.Env = append(os.Environ(), orphansVariable+"="+dir)
			require.NoError(t, pause.Start())
			t.Cleanup(func() { _ = pause.Process.Kill() })

			gone(t, filepath.Join(dir, "zombie"))
			fifo, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_WRONLY, 0)
			require.NoError(t, err)
			require.NoError(t, fifo.Close())
			gone(t, filepath.Join(dir, "orphan"))
			require.NoError(t, pause.Process.Signal(sig))
			require.NoError(t, pause.Wait(), "it ends well, so that a pod ends at once")
		})
	}
}
