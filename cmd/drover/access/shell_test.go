package access_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
)

// session runs a command over a fresh connection and returns what came of it.
func session(t *testing.T, s access.Session, stdin string) (out, errOut string, status int) {
	t.Helper()
	client, _ := dial(t, sshkeys.Options{})
	var stdout, stderr bytes.Buffer
	s.Streams = genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &stdout, ErrOut: &stderr}
	status, err := s.Run(t.Context(), client)
	require.NoError(t, err)
	return stdout.String(), stderr.String(), status
}

func TestSession(t *testing.T) {
	for name, c := range map[string]struct {
		command     []string
		stdin       string
		out, errOut string
		status      int
	}{
		"a shell":                {stdin: "echo $((6*7))\nexit 4\n", out: "42\n", status: 4},
		"a line":                 {command: []string{"echo a | tr a b; exit 3"}, out: "b\n", status: 3},
		"a command":              {command: []string{"printf", `%s|`, "a b", "$HOME", "it's", ""}, out: "a b|$HOME|it's||"},
		"standard input":         {command: []string{"cat"}, stdin: "from here\x00", out: "from here\x00"},
		"standard error":         {command: []string{"echo oops >&2; false"}, errOut: "oops\n", status: 1},
		"killed by a signal":     {command: []string{"kill -9 $$"}, status: sshkeys.NoStatus},
		"a command nobody knows": {command: []string{"no-such-command-here 2>/dev/null"}, status: 127},
		"input nobody reads":     {command: []string{"exit 5"}, stdin: strings.Repeat("x", 1<<20), status: 5},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, status := session(t, access.Session{Command: c.command}, c.stdin)
			require.Equal(t, c.out, out)
			require.Equal(t, c.errOut, errOut)
			require.Equal(t, c.status, status)
		})
	}
}

// TestSessionWithTerminal: -t gives a terminal of the usual size where the user has none, and -T takes it away from nobody.
func TestSessionWithTerminal(t *testing.T) {
	for name, c := range map[string]struct {
		session access.Session
		sizes   []string
	}{
		"a shell without a terminal": {access.Session{}, nil},
		"forced":                     {access.Session{ForceTerminal: true, Command: []string{"true"}}, []string{"80x24"}},
		"refused":                    {access.Session{NoTerminal: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := dial(t, sshkeys.Options{})
			var out bytes.Buffer
			c.session.Streams = genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
			status, err := c.session.Run(t.Context(), client)
			require.NoError(t, err)
			require.Zero(t, status)
			require.Equal(t, c.sizes, server.Sizes())
		})
	}
}

func TestSessionEndsWithItsContext(t *testing.T) {
	client, _ := dial(t, sshkeys.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	out := writerFunc(func([]byte) { cancel(errors.New("interrupted")) })
	s := access.Session{Command: []string{"echo up; exec sleep 60"}, Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}}
	_, err := s.Run(ctx, client)
	require.EqualError(t, err, "running a command over SSH: interrupted")
}

type writerFunc func([]byte)

func (w writerFunc) Write(p []byte) (int, error) { w(p); return len(p), nil }

// TestCommandLineIsReadBackByAShell: a command with arguments means the same to the remote shell, whatever is in them.
func TestCommandLineIsReadBackByAShell(t *testing.T) {
	check := func(first, second string) {
		if strings.ContainsRune(first+second, 0) {
			return
		}
		line := access.CommandLine([]string{"printf", `%s\0`, first, second})
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", line).Output()
		require.NoError(t, err)
		require.Equal(t, first+"\x00"+second+"\x00", string(out))
	}
	for _, seed := range []string{"a b", "it's", "$(touch x)", "`id`", "-n", "\n", "*", "", "\\", "ü", "!!", "a'b\"c"} {
		check(seed, "second")
	}
}
