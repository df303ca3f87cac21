package live_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// localkube is the binary under test.
func localkube(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LOCALKUBE")
	if path == "" {
		path = "../../bin/localkube"
	}
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	require.FileExists(t, abs, "build it with make build")
	return abs
}

// run runs a verb to its end and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// Who is to end and runs as a server instead fails its own test, not all of them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, localkube(t), args...).CombinedOutput()
	return string(out), err
}

// must is run for what has to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	require.NoError(t, err, "localkube %s: %s", strings.Join(args, " "), out)
	return out
}

// instance is a running server.
type instance struct {
	t          *testing.T
	cmd        *exec.Cmd
	dir        string
	log        bytes.Buffer
	Kubeconfig string
}

// start runs a server and returns when it says that it is ready.
func start(t *testing.T, dir string, args ...string) *instance {
	t.Helper()
	i := &instance{t: t, dir: dir}
	i.cmd = exec.Command(localkube(t), append([]string{"server", "--data-dir", dir}, args...)...)
	i.cmd.Stderr = &i.log
	out, err := i.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, i.cmd.Start())
	t.Cleanup(func() {
		_ = i.cmd.Process.Kill() // it may have ended
		must(t, "down", "--data-dir", dir)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "the server is not ready: %s", &i.log)
	i.Kubeconfig = strings.TrimSpace(line)
	return i
}

// child is the process id of a component.
func (i *instance) child(verb string) int {
	i.t.Helper()
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(i.cmd.Process.Pid), "-f", verb).Output()
	require.NoError(i.t, err, verb)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(i.t, err, "%s", out)
	return pid
}

// kubectl runs kubectl against the server and returns what it prints.
func (i *instance) kubectl(args ...string) string {
	i.t.Helper()
	return must(i.t, append([]string{"kubectl", "--kubeconfig", i.Kubeconfig}, args...)...)
}

// apply applies a manifest.
func (i *instance) apply(manifest string) {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), "manifest.yaml")
	require.NoError(i.t, os.WriteFile(path, []byte(manifest), 0o600))
	i.kubectl("apply", "-f", path)
}
