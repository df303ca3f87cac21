package access_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

// run is one run of a program and its result.
type run struct {
	program, stdin string
	args           []string

	out, errOut string
	status      int
	err         error
}

// start runs the program of the PATH against machine web-1. Its temporary files are in a directory of its own, which must be empty afterwards.
func (r *run) start(t *testing.T, w *world) {
	t.Helper()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out, errOut bytes.Buffer
	program, err := access.FindProgram(r.program, genericiooptions.IOStreams{In: strings.NewReader(r.stdin), Out: &out, ErrOut: &errOut})
	require.NoError(t, err)
	m := machine("1")
	r.status, r.err = program.Run(t.Context(), w.api, m, w.login, r.args...)
	r.out, r.errOut = out.String(), errOut.String()
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the key is removed")
}

// runSSH runs ssh against the server of the world, which must be possible.
func runSSH(t *testing.T, w *world, stdin string, args ...string) *run {
	t.Helper()
	r := &run{program: "ssh", stdin: stdin, args: append([]string{"web-1"}, args...)}
	r.start(t, w)
	require.NoError(t, r.err)
	return r
}

func TestRun_ssh(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		args        []string
		stdin       string
		out, errOut string
		status      int
	}{
		"a shell":                {args: []string{"-T"}, stdin: "echo $((6*7))\nexit 4\n", out: "42\n", status: 4},
		"a line":                 {args: []string{"echo a | tr a b; exit 3"}, out: "b\n", status: 3},
		"words":                  {args: []string{"echo", "a", "b", "--help"}, out: "a b --help\n"},
		"standard input":         {args: []string{"cat"}, stdin: "from here\x00", out: "from here\x00"},
		"standard error":         {args: []string{"echo oops >&2; false"}, errOut: "oops\n", status: 1},
		"options before a word":  {args: []string{"-o", "SendEnv=none", "-T", "echo", "-n", "x"}, out: "x"},
		"input nobody reads":     {args: []string{"exit 5"}, stdin: strings.Repeat("x", 1<<20), status: 5},
		"killed by a signal":     {args: []string{"kill -9 $$"}, status: 255},
		"no weaker verification": {args: []string{"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := runSSH(t, w, c.stdin, c.args...)
			require.Equal(t, c.out, r.out)
			require.Equal(t, c.errOut, r.errOut)
			require.Equal(t, c.status, r.status)
		})
	}
}

func TestRun_scp(t *testing.T) {
	w := newWorld(t, nil)
	here, there := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(here, "dir", "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(here, "dir", "sub", "f"), []byte("deep"), 0o600))
	scp := func(recursive bool, paths ...string) *run {
		plan, err := access.ParseCopy(paths, []string{"-q"}, recursive)
		require.NoError(t, err)
		r := &run{program: "scp", args: plan.Args("web-1")}
		r.start(t, w)
		require.NoError(t, r.err)
		return r
	}
	r := scp(true, filepath.Join(here, "dir"), "web-1:"+there)
	require.Zero(t, r.status, r.errOut)
	r = scp(false, "web-1:"+there+"/dir/sub/f", filepath.Join(here, "back"))
	require.Zero(t, r.status, r.errOut)
	content, err := os.ReadFile(filepath.Join(here, "back"))
	require.NoError(t, err)
	require.Equal(t, "deep", string(content))
	r = scp(false, filepath.Join(here, "dir"), "web-1:"+there)
	require.NotZero(t, r.status)
	require.Contains(t, r.errOut, "not a regular file")
}

// TestRun_removesTheKey when a signal ends the process: ssh ends first, then the directory is removed.
func TestRun_removesTheKey(t *testing.T) {
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		t.Run(sent.String(), func(t *testing.T) {
			if signal.Ignored(sent) {
				t.Skip("the tests were started with this signal ignored, as nohup does")
			}
			w := newWorld(t, nil)
			fifo := filepath.Join(t.TempDir(), "fifo")
			require.NoError(t, syscall.Mkfifo(fifo, 0o600))
			go func() {
				_, _ = os.ReadFile(fifo) // the remote command runs
				_ = syscall.Kill(os.Getpid(), sent)
			}()
			r := &run{program: "ssh", args: []string{"web-1", "echo up >" + fifo + "; sleep 600"}}
			started := time.Now()
			r.start(t, w)
			require.ErrorContains(t, r.err, "running ssh: ")
			require.Equal(t, 255, r.status)
			require.Less(t, time.Since(started), time.Minute)
		})
	}
}

// TestRun_refusesAnotherServer also when the user accepts new host keys.
func TestRun_refusesAnotherServer(t *testing.T) {
	for _, accept := range []bool{false, true} {
		w := newWorld(t, nil)
		other := sshtest.StartOpenSSH(t, w.keys.Public)
		secret := w.state(t)
		secret.Data[state.ServerKey] = serverDocument(t, other)
		w.api.Kube = fake.NewClientset(secret)
		before := w.state(t)
		w.login.AcceptNewHostKey = accept
		r := runSSH(t, w, "", "echo in")
		require.Equal(t, 255, r.status)
		require.Empty(t, r.out)
		require.Contains(t, r.errOut, "REMOTE HOST IDENTIFICATION HAS CHANGED")
		require.Equal(t, before, w.state(t))
		require.Contains(t, w.told()[0], "ssh exited with 255. If there was no login, see 'drover why web-1 -n shop'")
		require.Contains(t, w.told()[2], `remove the recorded key (kubectl -n shop patch secret web-1-machine-state --type json -p '[{"op":"remove","path":"/data/ssh-knownhosts"}]'), `+
			"then run 'drover ssh web-1 -n shop --accept-new-host-key'")
	}
}

func TestRun_recordsANewHostKeyOnce(t *testing.T) {
	w := newWorld(t, func(data map[string][]byte) { delete(data, state.SSHKnownHostsKey) })
	r := &run{program: "ssh", args: []string{"web-1", "echo in"}}
	r.start(t, w)
	require.EqualError(t, r.err, "no host key of web-1 is recorded, so drover cannot verify the server at its address. If you trust the network between you and the server, "+
		"run 'drover ssh web-1 -n shop --accept-new-host-key' once: it records the key in Secret web-1-machine-state, and every later connection verifies it")
	require.Empty(t, w.state(t).Data[state.SSHKnownHostsKey])

	w.login.AcceptNewHostKey = true
	r = runSSH(t, w, "", "echo in")
	require.Equal(t, "in\n", r.out)
	require.Empty(t, r.errOut)
	recorded := sshkeys.KnownHostsLine(w.server.Host, w.server.Port, w.server.HostKey)
	require.Equal(t, string(recorded), string(w.state(t).Data[state.SSHKnownHostsKey]))
	require.Equal(t, []string{"recorded the host key of web-1 in Secret web-1-machine-state"}, w.told())
	require.Equal(t, "in\n", runSSH(t, w, "", "echo in").out)
	require.Len(t, w.told(), 1, "a recorded key is not recorded again")
}

// TestRun_recordsNoHostKeyWithoutALogin: a server that refuses the machine's key may be another one.
func TestRun_recordsNoHostKeyWithoutALogin(t *testing.T) {
	other, err := sshkeys.Generate("other")
	require.NoError(t, err)
	w := newWorld(t, func(data map[string][]byte) {
		delete(data, state.SSHKnownHostsKey)
		data[state.SSHPrivateKeyKey] = other.Private
	})
	w.login.AcceptNewHostKey = true
	r := runSSH(t, w, "", "-o", "BatchMode=yes", "true")
	require.Equal(t, 255, r.status)
	require.Contains(t, r.errOut, "Permission denied (publickey")
	require.Empty(t, w.state(t).Data[state.SSHKnownHostsKey])
	require.Contains(t, w.told()[1], "if the server refuses the key "+sshkeys.Fingerprint(other.Public)+` of Secret web-1-machine-state: see "Another key for a host" in docs/drivers.md`)
}

// TestRun_overAJumpHost: the user's own configuration and known hosts decide about the jump host; the server's key is verified as always.
func TestRun_overAJumpHost(t *testing.T) {
	theirs, err := exec.LookPath("ssh")
	require.NoError(t, err)
	w := newWorld(t, nil)
	mine, err := sshkeys.Generate("mine")
	require.NoError(t, err)
	bastion := sshtest.StartOpenSSH(t, mine.Public)
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700))
	}
	write("key", string(mine.Private))
	write("config", fmt.Sprintf("Host bastion\n HostName 127.0.0.1\n Port %d\n IdentityFile %s/key\n UserKnownHostsFile %[2]s/known\n BatchMode yes\n", bastion.Port, dir))
	write("ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/config \"$@\"\n", theirs, dir))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	w.login.Jump = bastion.User + "@bastion"

	write("known", string(sshkeys.KnownHostsLine("127.0.0.1", bastion.Port, bastion.HostKey)))
	r := runSSH(t, w, "", "echo through")
	require.Equal(t, "through\n", r.out, r.errOut)
	write("known", string(sshkeys.KnownHostsLine("127.0.0.1", bastion.Port, w.server.HostKey)))
	r = runSSH(t, w, "", "echo through")
	require.Equal(t, 255, r.status)
	require.Contains(t, r.errOut, "Host key verification failed")
	require.Empty(t, r.out)
}

// TestRun_commandLine: what ssh and scp get, and who may read the key.
func TestRun_commandLine(t *testing.T) {
	w := newWorld(t, nil)
	dir := t.TempDir()
	const script = `#!/bin/sh
echo "${0##*/}"
printf '  %s\n' "$@"
stat -c '%a %n' "$TMPDIR"/* "$TMPDIR"/*/web-1 "$TMPDIR"/*/web-1/*
`
	for _, name := range []string{"ssh", "scp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	w.login.Jump, w.login.User, w.login.Address, w.login.Port = "me@bastion,other:23", "core", "fe80::1%eth0", 2222
	plan, err := access.ParseCopy([]string{"-a", "web-1:b"}, []string{"-C"}, true)
	require.NoError(t, err)
	var got strings.Builder
	for _, r := range []*run{{program: "ssh", args: []string{"web-1", "-t", "top"}}, {program: "scp", args: plan.Args("web-1")}} {
		r.start(t, w)
		require.NoError(t, r.err)
		got.WriteString(r.out)
	}
	text := got.String()
	require.NotContains(t, text, "PRIVATE")
	text = regexp.MustCompile(`[^ "=]*/drover-[0-9]+`).ReplaceAllString(text, "DIR")
	golden.Require(t, filepath.Join("testdata", "command-line.golden"), text)
}

func TestFindProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := access.FindProgram("scp", genericiooptions.IOStreams{})
	require.ErrorContains(t, err, "the program scp is not in your PATH: install the OpenSSH client (package openssh-client on Debian, Ubuntu and Alpine, ")
}

// TestRun_tellsNoSecret: a key that cannot be read is not in the error.
func TestRun_tellsNoSecret(t *testing.T) {
	w := newWorld(t, func(data map[string][]byte) { data[state.SSHPrivateKeyKey] = []byte("MARKER-private") })
	r := &run{program: "ssh", args: []string{"web-1"}}
	r.start(t, w)
	require.EqualError(t, r.err, "the state's SSH private key is no OpenSSH or PEM key without passphrase")
}
