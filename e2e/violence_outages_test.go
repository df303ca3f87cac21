package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestOutages plays what a cluster outlives, with the manager that it shares with no other story meanwhile; and in the end no secret of it is to be seen.
func TestOutages(t *testing.T) {
	if bed == nil {
		t.Skip("outages need the testbed: run `make e2e`")
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "outages"),
		Setup: func(env *testscript.Env) error {
			s := newSecrets()
			env.Values[secretsKey{}] = s
			env.Defer(s.watchProcesses(context.Background(), 50*time.Millisecond))
			return setup(env)
		},
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(30 * time.Minute),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "expand": expand, "cloud": cloud, "push": push, "mark": mark, "set": set,
			"kill-manager": killOneManager, "remember": remember, "kept": kept, "hidden": hidden,
		},
	})
}

// killOneManager POD kills a manager without warning; its pod is gone before, so that the kubelet does not start it again.
func killOneManager(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kill-manager POD")
	}
	ts.Check(ts.Exec(lookPath(ts, "kubectl"), "--namespace=drover-system", "delete", "pod", args[0], "--force", "--grace-period=0", "--wait=false"))
	killed := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range lines {
		environment, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(environment), "\x00"), "HOSTNAME="+args[0]) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		ts.Fatalf("pod %s has no process", args[0])
	}
}

type secretsKey struct{}

func secretsOf(ts *testscript.TestScript) *secrets {
	s, ok := ts.Value(secretsKey{}).(*secrets)
	if !ok {
		ts.Fatalf("the story has no secrets")
	}
	return s
}

// output is what a command prints.
func output(ts *testscript.TestScript, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(context.Background(), lookPath(ts, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = filepath.Clean(ts.Getenv("WORK")), environ(ts)
	return cmd.CombinedOutput()
}

// remember NAME COMMAND... makes what a command prints a secret of the story; of PEM it is a line of the key.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: remember NAME COMMAND...")
	}
	out, err := output(ts, args[1:]...)
	text := strings.TrimSpace(string(out))
	if _, key, isPEM := strings.Cut(text, "PRIVATE KEY-----\n"); isPEM {
		text, _, _ = strings.Cut(key, "\n")
	}
	if err != nil || len(text) < 12 || strings.ContainsAny(text, "\n ") {
		ts.Fatalf("%s: %v: it prints no secret, but %d bytes", strings.Join(args[1:], " "), err, len(out)) // and what it prints is told to nobody
	}
	secretsOf(ts).remember(args[0], text)
}

// kept NAME PATTERN... holds the Secrets that have a secret to those that the patterns name; each names one at least.
func kept(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: kept NAME PATTERN...")
	}
	holders, err := secretsOf(ts).holders(args[0], kubectlOf(ts))
	ts.Check(err)
	for _, pattern := range args[1:] {
		is := func(name string) bool { matched, _ := path.Match(pattern, name); return matched }
		if !slices.ContainsFunc(holders, is) {
			ts.Fatalf("the %s is in no Secret %s", args[0], pattern)
		}
		holders = slices.DeleteFunc(holders, is)
	}
	if len(holders) > 0 {
		ts.Fatalf("the %s is in these Secrets too: %q", args[0], holders)
	}
}

func kubectlOf(ts *testscript.TestScript) func(args ...string) []byte {
	return func(args ...string) []byte {
		out, _ := output(ts, append([]string{"kubectl"}, args...)...)
		return out
	}
}

// hidden COMMAND... fails when what a command prints has a secret in it, and so does hidden alone for all objects, arguments and environments.
func hidden(ts *testscript.TestScript, neg bool, args []string) {
	s := secretsOf(ts)
	if len(args) == 0 {
		ts.Check(s.searchObjects(kubectlOf(ts)))
		if places := s.places(); len(places) > 0 {
			ts.Fatalf("secrets are shown: %s", strings.Join(places, "; "))
		}
		return
	}
	out, err := output(ts, args...)
	if err == nil && len(bytes.TrimSpace(out)) == 0 {
		err = errors.New("it prints nothing")
	}
	if err != nil {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	if found := s.in(out); (len(found) > 0) != neg {
		ts.Fatalf("%s: of %d bytes, shown is %q", strings.Join(args, " "), len(out), found)
	}
}

func TestSecrets(t *testing.T) {
	s := newSecrets()
	s.remember("token", "a-token-of-ours")
	require.Equal(t, []string{"token"}, s.in([]byte("x a-token-of-ours")))
	require.True(t, s.holds(fmt.Appendf(nil, `{"files":[{"content":%q}]}`, "dG9rZW46IGEtdG9rZW4tb2Ytb3VycwphZ2Fpbg=="), "token", 2))
	require.False(t, s.holds([]byte("a-token-of-theirs"), "token", 2))
}
