package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/admin"
)

// program is the command as a process of its own; testscript has put it on the path.
type program struct {
	*exec.Cmd
	out, err output
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.CommandContext(t.Context(), "localcloud", args...)}
	p.Stdout, p.Stderr = &p.out, &p.err
	require.NoError(t, p.Start())
	return p
}

// serveProcess starts a cloud and waits until it listens.
func serveProcess(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	p := start(t, append([]string{"serve", "--backend", "instant", "--state-dir", dir}, args...)...)
	t.Cleanup(func() { _ = p.Process.Kill() })
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "\npid ") }, time.Minute, 5*time.Millisecond)
	return p
}

// try runs the command to its end and returns what it printed and its exit code.
func try(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := start(t, args...)
	var failed *exec.ExitError
	if err := p.Wait(); !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	return p.out.String(), p.err.String(), p.ProcessState.ExitCode()
}

func TestErrorsGoToTheirPlace(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no cloud":    {[]string{"ls"}, "localcloud: finding local cloud in " + dir + ": no local cloud is running here\n"},
		"misspelt":    {[]string{"token", "revok"}, "localcloud: unknown command \"revok\" for \"localcloud token\"\n"},
		"bad flag":    {[]string{"ls", "--frce"}, "localcloud: unknown flag: --frce\n"},
		"no argument": {[]string{"vanish"}, "localcloud: accepts 1 arg(s), received 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := try(t, append(test.args, "--state-dir", dir)...)
			require.Empty(t, out)
			require.Equal(t, test.want, stderr)
			require.Equal(t, 1, code)
		})
	}
	out, stderr, code := try(t, "--help")
	require.Contains(t, out, "Usage:")
	require.Empty(t, stderr)
	require.Zero(t, code)
}

// Whoever lists processes sees arguments; a token in a file is not among them.
func TestATokenFileIsInNoArguments(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("marker-secret\n"), 0o600))
	dir := filepath.Join(t.TempDir(), "state")
	p := serveProcess(t, dir, "--token-file", "demo="+secret)
	for _, name := range []string{"cmdline", "environ"} {
		content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Process.Pid), name))
		require.NoError(t, err)
		require.NotContains(t, string(content), "marker")
	}
	require.NotContains(t, p.out.String()+p.err.String(), "marker")
	tokens, _, code := try(t, "token", "ls", "--state-dir", dir)
	require.Zero(t, code)
	require.Contains(t, tokens, `"secret":"marker-secret"`, "asked for, it is told")
	info, err := os.Stat(filepath.Join(dir, "tokens.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestInterruptEndsItInOrder(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := filepath.Join(t.TempDir(), "state")
		p := serveProcess(t, dir)
		_, _, code := try(t, "server", "add", "plain", "--state-dir", dir)
		require.Zero(t, code)
		require.NoError(t, p.Process.Signal(signal))
		require.NoError(t, p.Wait(), "an end that is asked for is no failure")
		require.Contains(t, p.err.String(), "msg=stopping")
		require.NoFileExists(t, filepath.Join(dir, admin.EndpointsFile))
	}
}

// After a crash the next cloud goes on with the same servers, tokens and certificates.
func TestACrashLosesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := serveProcess(t, dir)
	_, _, code := try(t, "server", "add", "plain", "--state-dir", dir)
	require.Zero(t, code)
	secret, _, code := try(t, "token", "add", "kept", "--state-dir", dir)
	require.Zero(t, code)
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())

	_, stderr, code := try(t, "ls", "--state-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "no local cloud is running here")
	second := serveProcess(t, dir)
	list, _, code := try(t, "ls", "--state-dir", dir)
	require.Zero(t, code)
	require.Contains(t, list, "plain  active  198.18.1.1")
	tokens, _, _ := try(t, "token", "ls", "--state-dir", dir)
	require.Contains(t, tokens, strings.TrimSpace(secret))
	again, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(authority, again))

	_, stderr, code = try(t, "clean", "--state-dir", dir)
	require.Zero(t, code, stderr)
	require.NoError(t, second.Wait(), "clean asks, and waits")
	require.NoDirExists(t, dir)
}

func TestKeepLeavesServersForTheNext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := serveProcess(t, dir, "--keep")
	_, _, code := try(t, "server", "add", "plain", "--state-dir", dir)
	require.Zero(t, code)
	require.NoError(t, first.Process.Signal(os.Interrupt))
	require.NoError(t, first.Wait())
	serveProcess(t, dir)
	list, _, _ := try(t, "ls", "--state-dir", dir)
	require.Contains(t, list, "plain  active")
}

// Two cleans at once: both end well, and the cloud is told to stop once at most by each.
func TestCleansAtOnceAgree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	cloud := serveProcess(t, dir)
	cleans := []*program{start(t, "clean", "--state-dir", dir), start(t, "clean", "--state-dir", dir)}
	for _, clean := range cleans {
		require.NoError(t, clean.Wait(), clean.err.String())
	}
	require.NoError(t, cloud.Wait())
	require.NoDirExists(t, dir)
}

// The id of a process that is written down may be that of another one after a crash: clean must not stop it.
func TestCleanAfterACrashSparesWhoeverHasTheIDNow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := serveProcess(t, dir)
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	bystander := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, bystander.Start())
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	path := filepath.Join(dir, admin.EndpointsFile)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var endpoints admin.Endpoints
	require.NoError(t, json.Unmarshal(content, &endpoints))
	endpoints.PID = bystander.Process.Pid
	writeEndpoints(t, dir, endpoints)
	_, stderr, code := try(t, "clean", "--state-dir", dir)
	require.Zero(t, code, stderr)
	require.NoError(t, bystander.Process.Signal(syscall.Signal(0)), "it lives")
	require.NoDirExists(t, dir)
}

func TestAReaderThatLeavesIsNoHarm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	serveProcess(t, dir)
	list := exec.CommandContext(t.Context(), "localcloud", "token", "ls", "--state-dir", dir)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	list.Stdout = writer
	require.Error(t, list.Run(), "what could not be printed is no success")
	require.NoError(t, writer.Close())
	_, _, code := try(t, "ls", "--state-dir", dir)
	require.Zero(t, code)
}
