package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
)

// serve starts a cloud as a process of its own and waits until it listens; testscript has put the program on the path.
func serve(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	process := exec.CommandContext(t.Context(), "localcloud", "serve", "--backend", "instant", "--state-dir", dir)
	require.NoError(t, process.Start())
	require.Eventually(t, func() bool {
		_, err := cloud.Ask(t.Context(), dir, "ls")
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	return process
}

func TestInterruptEndsItInOrder(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := filepath.Join(t.TempDir(), "state")
		process := serve(t, dir)
		require.NoError(t, process.Process.Signal(signal))
		require.NoError(t, process.Wait(), "an end that is asked for is no failure")
		require.NoFileExists(t, filepath.Join(dir, cloud.EndpointsFile))
	}
}

// Of a cloud that crashed, what it wrote down leads nowhere.
func TestCleanAfterACrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	crashed := serve(t, dir)
	require.NoError(t, crashed.Process.Kill())
	require.Error(t, crashed.Wait())
	require.NoError(t, exec.CommandContext(t.Context(), "localcloud", "clean", "--state-dir", dir).Run())
	require.NoDirExists(t, dir)
}
