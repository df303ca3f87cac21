package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/admin"
)

// serving runs serve until the returned function, which returns its error.
func serving(t *testing.T, dir string, args ...string) (out *output, stop func() error) {
	t.Helper()
	out = &output{}
	root := newRootCommand()
	root.SetOut(out)
	root.SetErr(&output{})
	root.SetArgs(append([]string{"serve", "--backend", "instant", "--state-dir", dir}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "\npid ") }, time.Minute, 5*time.Millisecond)
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return out, stop
}

func TestServeTellsWhereItListensAndLeavesNoServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("marker-of-file\n"), 0o600))
	out, stop := serving(t, dir, "--token", "first=marker-first", "--token", "second=a=b", "--token-file", "third="+secret, "--droplet-limit", "7", "-v")
	require.Regexp(t, `^api    https://127\.0\.0\.1:\d+
proxy  http://127\.0\.0\.1:\d+
files  https://127\.0\.0\.1:\d+
admin  http://127\.0\.0\.1:\d+
ca     `+dir+`/ca\.pem
pid    \d+
$`, out.String())
	client, err := admin.Dial(dir)
	require.NoError(t, err)
	tokens, err := client.Tokens(t.Context())
	require.NoError(t, err)
	secrets := map[string]string{}
	for _, token := range tokens {
		secrets[token.Name] = token.Secret
	}
	delete(secrets, cloudToken)
	require.Equal(t, map[string]string{"first": "marker-first", "second": "a=b", "third": "marker-of-file"}, secrets)
	_, err = run(t.Context(), "server", "add", "plain", "--state-dir", dir)
	require.NoError(t, err)

	_, err = run(t.Context(), "serve", "--backend", "instant", "--state-dir", dir)
	require.ErrorIs(t, err, cloud.ErrRunning)
	require.NoError(t, stop())
	_, err = run(t.Context(), "ls", "--state-dir", dir)
	require.ErrorIs(t, err, admin.ErrNotRunning)

	serving(t, dir)
	live, err := run(t.Context(), "ledger", "--live", "-o", "json", "--state-dir", dir)
	require.NoError(t, err)
	require.Empty(t, live, "it was removed at the end")
	all, err := run(t.Context(), "ledger", "--state-dir", dir)
	require.NoError(t, err)
	require.Contains(t, all, "plain", "and is not forgotten")
}

func TestServeRefusesWhatItCannotServe(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for line, want := range map[string]string{
		"--backend aws":                            `checking cloud options: there is no backend "aws"`,
		"--backend nspawn --rootfs-dir=":           "checking cloud options: the nspawn backend needs a state and a root file system directory",
		"--bind localhost":                         `checking cloud options: ParseAddr("localhost"): unable to parse IP`,
		"--api-port 65536":                         "checking cloud options: 65536 is no port",
		"--admin-port -1":                          "checking cloud options: -1 is no port",
		"--boot-delay -1s":                         "checking cloud options: boot delay and limits cannot be negative",
		"--rate-limit -1":                          "checking cloud options: boot delay and limits cannot be negative",
		"--token marker":                           `must be formatted as key=value`,
		"--token =marker":                          `checking cloud options: token "" lacks a name or a secret`,
		"--token demo=":                            `checking cloud options: token "demo" lacks a name or a secret`,
		"--token-file demo=" + missing:             "reading token demo: open " + missing + ": no such file or directory",
		"--token-file demo=" + empty:               `checking cloud options: token "demo" lacks a name or a secret`,
		"--token a=marker --token-file a=" + empty: "the token a is given twice",
		"--api-port many":                          `invalid argument "many" for "--api-port" flag`,
		"extra":                                    `unknown command "extra" for "localcloud serve"`,
		"--bind 203.0.113.1":                       "bind: cannot assign requested address",
	} {
		t.Run(line, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that serves all the same must end, too
			defer cancel()
			out, err := run(ctx, append([]string{"serve", "--backend", "instant", "--state-dir", dir}, strings.Fields(line)...)...)
			require.ErrorContains(t, err, want)
			require.Empty(t, out)
			require.NoFileExists(t, filepath.Join(dir, admin.EndpointsFile))
		})
	}
}

func TestReadTokensInOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(" s3cret \n"), 0o600))
	tokens, err := readTokens(map[string]string{"c": "3", "a": "1"}, map[string]string{"b": file})
	require.NoError(t, err)
	require.Equal(t, []account.Token{{Name: "a", Secret: "1"}, {Name: "b", Secret: "s3cret"}, {Name: "c", Secret: "3"}}, tokens)
	tokens, err = readTokens(nil, nil)
	require.NoError(t, err)
	require.Empty(t, tokens)
	tokens, err = readTokens(nil, map[string]string{"b": file})
	require.NoError(t, err)
	require.Len(t, tokens, 1)
}

func writeEndpoints(t *testing.T, dir string, endpoints admin.Endpoints) {
	t.Helper()
	content, err := json.Marshal(endpoints)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, admin.EndpointsFile), content, 0o600))
}

// lock takes a state directory as a running cloud does.
func lock(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	return func() { require.NoError(t, file.Close()) }
}

func neverStop(t *testing.T) func(int) error {
	t.Helper()
	return func(pid int) error {
		t.Errorf("process %d is told to stop", pid)
		return nil
	}
}

func TestCleanOfWhatDoesNotRun(t *testing.T) {
	for name, test := range map[string]struct {
		files []string
		want  string
		left  bool
	}{
		"nothing":       {nil, "", false},
		"after a crash": {[]string{"lock", "ledger.jsonl", "tokens.json", "ca.pem", "ca-key.pem", "endpoints.json"}, "", false},
		"someone's":     {[]string{"thesis.tex"}, "is not the state directory of a local cloud", true},
		"ours and more": {[]string{"lock", "thesis.tex"}, "directory not empty", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			for _, file := range test.files {
				require.NoError(t, os.MkdirAll(dir, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
			}
			err := clean(t.Context(), dir, neverStop(t))
			if test.want == "" {
				require.NoError(t, err)
				require.NoDirExists(t, dir)
				return
			}
			require.ErrorContains(t, err, test.want)
			require.FileExists(t, filepath.Join(dir, "thesis.tex"))
		})
	}
	_, err := run(t.Context(), "clean", "--state-dir=")
	require.EqualError(t, err, "cleaning state: no directory was given")
}

func TestCleanStopsTheHolderOfTheDirectoryOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	unlock := lock(t, dir)
	writeEndpoints(t, dir, admin.Endpoints{PID: os.Getpid()})
	var stopped []int
	require.NoError(t, clean(t.Context(), dir, func(pid int) error {
		stopped = append(stopped, pid)
		unlock()
		return nil
	}))
	require.Equal(t, []int{os.Getpid()}, stopped)
	require.NoDirExists(t, dir)
}

func TestCleanTellsWhenTheHolderCannotBeStopped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	defer lock(t, dir)()
	writeEndpoints(t, dir, admin.Endpoints{PID: os.Getpid()})
	denied := errors.New("operation not permitted")
	require.EqualError(t, clean(t.Context(), dir, func(int) error { return denied }), "stopping the running cloud: operation not permitted")
	ctx, cancel := context.WithCancel(t.Context())
	err := clean(ctx, dir, func(int) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cloud.ErrRunning)
	require.FileExists(t, filepath.Join(dir, admin.EndpointsFile), "nothing of what runs is removed")
}

// Who has the directory need not be who wrote down where it listens: a clean that goes on at the same
// time, or a process that got the id of one that crashed.
func TestCleanNeverStopsAnotherProcess(t *testing.T) {
	for name, pid := range map[string]int{"none": 0, "everyone": -1, "the first": 1, "its parent's": os.Getppid(), "gone": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			defer lock(t, dir)()
			writeEndpoints(t, dir, admin.Endpoints{PID: pid})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, clean(ctx, dir, neverStop(t)), cloud.ErrRunning)
		})
	}
	dir := filepath.Join(t.TempDir(), "state")
	unlock := lock(t, dir)
	cleaned := make(chan error, 1)
	go func() { cleaned <- clean(t.Context(), dir, neverStop(t)) }()
	unlock()
	require.NoError(t, <-cleaned, "it waits for whoever is at it")
	require.NoDirExists(t, dir)
}

func TestHolds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	require.False(t, holds(os.Getpid(), path), "there is none")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.True(t, holds(os.Getpid(), path))
	require.NoError(t, os.Symlink(dir, dir+"-link"))
	require.True(t, holds(os.Getpid(), filepath.Join(dir+"-link", "lock")))
	t.Chdir(dir)
	require.True(t, holds(os.Getpid(), "lock"))
	require.False(t, holds(os.Getppid(), path))
	require.NoError(t, file.Close())
	require.False(t, holds(os.Getpid(), path))
}
