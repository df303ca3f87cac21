package testkit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const validKubeconfig = `clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {token: t}}]
`

// fakeLocalkube makes a script stand in for the binary; DIR in it is a
// directory of the test's own.
func fakeLocalkube(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("TMPDIR", dir) // where the data directories are made
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubeconfig"), []byte(validKubeconfig), 0o600))
	path := filepath.Join(dir, "localkube")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "DIR", dir)), 0o700))
	t.Setenv(binaryVariable, path)
	return dir
}

// runsUntilTold is a localkube that is ready at once and ends as it should.
const runsUntilTold = `echo "$@" >>DIR/args
trap 'echo told >>DIR/told; exit 0' TERM
echo DIR/kubeconfig
while :; do sleep 0.02; done
`

// dataDirs are the data directories that are left.
func dataDirs(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "drover-testkit-*"))
	require.NoError(t, err)
	return found
}

func content(t *testing.T, elem ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(elem...))
	require.NoError(t, err)
	return string(raw)
}

func TestServer_is_started_once_and_told_to_stop(t *testing.T) {
	dir := fakeLocalkube(t, runsUntilTold)
	s := &server{}
	var wait sync.WaitGroup
	failures := make(chan error, 20)
	for range 20 {
		wait.Go(func() { failures <- s.ensure() })
	}
	wait.Wait()
	for range 20 {
		require.NoError(t, <-failures)
	}
	require.Equal(t, filepath.Join(dir, "kubeconfig"), s.kubeconfig)
	require.Equal(t, "https://127.0.0.1:1", s.config.Host)
	require.EqualValues(t, -1, s.config.QPS)
	made := dataDirs(t, dir)
	require.Len(t, made, 1)
	require.Equal(t, "server --data-dir "+made[0]+" --ephemeral --disable controller-manager,scheduler\n", content(t, dir, "args"))
	require.NoError(t, s.stop())
	require.Equal(t, "told\n", content(t, dir, "told"))
}

func TestServer_that_does_not_start(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"says why":          {"echo port in use >&2; exit 3", "starting localkube: exit status 3\nport in use\n"},
		"says nothing":      {"exit 0", "starting localkube: %!w(<nil>)\n"},
		"names no file":     {"echo DIR/none; exec sleep 600", "reading kubeconfig: stat DIR/none: no such file or directory"},
		"names another one": {"echo DIR/localkube; exec sleep 600", "reading kubeconfig: error loading config file \"DIR/localkube\": "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fakeLocalkube(t, tc.script)
			s := &server{}
			t.Cleanup(func() { _ = s.stop() })
			err := s.ensure()
			require.ErrorContains(t, err, strings.ReplaceAll(strings.ReplaceAll(tc.want, "%!w(<nil>)", "it ended before it was ready"), "DIR", dir))
			require.Equal(t, err, s.ensure(), "everybody is told the same")
			if strings.Contains(tc.script, "exit") {
				require.Empty(t, dataDirs(t, dir), "what it began is removed")
			}
		})
	}
}

func TestServer_without_a_binary(t *testing.T) {
	t.Setenv(binaryVariable, "/nowhere/localkube")
	err := (&server{}).ensure()
	require.EqualError(t, err, "starting /nowhere/localkube: fork/exec /nowhere/localkube: no such file or directory")
	require.NoError(t, (&server{}).stop())

	t.Setenv(binaryVariable, "")
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "deep", "er"), 0o700))
	t.Chdir(filepath.Join(root, "deep", "er"))
	_, err = findBinary()
	require.EqualError(t, err, "tests against a real API server need bin/localkube: run make build, or set DROVER_LOCALKUBE")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "bin", "localkube"), nil, 0o700))
	binary, err := findBinary()
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(binary, "/bin/localkube"))
}

func TestServer_that_died_meanwhile_is_reported(t *testing.T) {
	fakeLocalkube(t, "echo DIR/kubeconfig; echo etcd ended >&2; exit 1")
	s := &server{}
	require.NoError(t, s.ensure())
	require.Eventually(t, func() bool {
		return strings.Contains(content(t, fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)), ") Z ")
	}, time.Minute, time.Millisecond, "it has died and nobody has noticed")
	err := s.stop()
	require.EqualError(t, err, "stopping localkube: exit status 1\netcd ended\n")
}

// parentVariable makes the test below a test binary that is killed.
const parentVariable = "DROVER_TEST_PARENT"

func TestServer_ends_with_a_test_binary_that_is_killed(t *testing.T) {
	if os.Getenv(parentVariable) != "" {
		s := &server{}
		require.NoError(t, s.ensure())
		_, _ = fmt.Println("started", s.cmd.Process.Pid)
		select {}
	}
	dir := fakeLocalkube(t, runsUntilTold)
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentVariable+"=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	var pid int
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "started %d", &pid)
	}
	require.Positive(t, pid)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "told\n", content(t, dir, "told"), "it is told, so that it can remove its directory")
}
