package sshtest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/sftp"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/sshkeys/sshtest"
)

// key is a fresh key as a signer and as an authorized_keys line.
func key(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return signer, ssh.MarshalAuthorizedKey(signer.PublicKey())
}

// login uses nothing but the SSH library: this server stands in for sshd where our own client is tested.
func login(t *testing.T, server *sshtest.Server, signer ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	client, err := ssh.Dial("tcp", net.JoinHostPort(server.Host, fmt.Sprint(server.Port)), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(server.HostKey())})
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
	}
	return client, err
}

func mustLogin(t *testing.T, options sshtest.Options) (*sshtest.Server, *ssh.Client) {
	t.Helper()
	signer, _ := key(t)
	server := sshtest.Start(t, options)
	client, err := login(t, server, signer)
	require.NoError(t, err)
	return server, client
}

// run gives a command's output and how it ended.
func run(t *testing.T, client *ssh.Client, line, stdin string) (string, error) {
	t.Helper()
	session, err := client.NewSession()
	require.NoError(t, err)
	defer func() { _ = session.Close() }()
	session.Stdin = strings.NewReader(stdin)
	out, err := session.CombinedOutput(line)
	return string(out), err
}

func TestStart_lets_in_whom_it_should(t *testing.T) {
	mine, line := key(t)
	other, _ := key(t)
	strict, open := sshtest.Start(t, sshtest.Options{AuthorizedKey: line}), sshtest.Start(t, sshtest.Options{})
	_, err := login(t, strict, mine)
	require.NoError(t, err)
	_, err = login(t, strict, other)
	require.ErrorContains(t, err, "unable to authenticate")
	_, err = login(t, open, other)
	require.NoError(t, err)
	require.NotEqual(t, strict.HostKey().Marshal(), open.HostKey().Marshal(), "each server has a key of its own")
	require.NotEqual(t, strict.Port, open.Port)
}

func TestCommands_run_as_in_a_shell(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
	server, client := mustLogin(t, sshtest.Options{Dir: dir, Env: []string{"GREETING=hello", "EMPTY="}})
	for line, tt := range map[string]struct {
		stdin, out string
		status     int
	}{
		"true":                              {},
		"exit 7":                            {status: 7},
		"cat":                               {stdin: "in\x00out", out: "in\x00out"},
		"pwd":                               {out: dir + "\n"},
		"cat file":                          {out: "content"},
		`echo "$GREETING$EMPTY"`:            {out: "hello\n"},
		"echo err >&2":                      {out: "err\n"},
		"no-such-command-here 2> /dev/null": {status: 127},
		"cat; exit 3":                       {stdin: "x", out: "x", status: 3},
		"head -c 200000 /dev/zero | wc -c":  {out: "200000\n"},
	} {
		t.Run(line, func(t *testing.T) {
			out, err := run(t, client, line, tt.stdin)
			require.Equal(t, tt.out, out)
			if tt.status == 0 {
				require.NoError(t, err)
				return
			}
			exit := &ssh.ExitError{}
			require.ErrorAs(t, err, &exit)
			require.Equal(t, tt.status, exit.ExitStatus())
		})
	}
	require.Len(t, server.Commands(), 10)
	require.Contains(t, server.Commands(), "cat file")
	server.Commands()[0] = "changed"
	require.NotContains(t, server.Commands(), "changed", "the list is a copy")
}

func TestCommands_tell_the_signal(t *testing.T) {
	_, client := mustLogin(t, sshtest.Options{})
	_, err := run(t, client, "kill -KILL $$", "")
	exit := &ssh.ExitError{}
	require.ErrorAs(t, err, &exit)
	require.Equal(t, "KILL", exit.Signal())
}

// A client that hangs up leaves no command behind.
func TestCommands_end_with_the_connection(t *testing.T) {
	dir := t.TempDir()
	_, client := mustLogin(t, sshtest.Options{Dir: dir})
	session, err := client.NewSession()
	require.NoError(t, err)
	out, err := session.StdoutPipe()
	require.NoError(t, err)
	// The pipe has another end until the shell and its child are gone.
	require.NoError(t, session.Start("mkfifo alive; echo begun; exec 3> alive; exec sleep 600"))
	_, err = io.ReadFull(out, make([]byte, len("begun\n")))
	require.NoError(t, err)
	alive, err := os.Open(filepath.Join(dir, "alive"))
	require.NoError(t, err)
	defer func() { _ = alive.Close() }()
	require.NoError(t, client.Close())
	_, err = io.ReadAll(alive)
	require.NoError(t, err)
}

func TestTerminals_tell_their_sizes(t *testing.T) {
	server, client := mustLogin(t, sshtest.Options{})
	session, err := client.NewSession()
	require.NoError(t, err)
	require.NoError(t, session.RequestPty("xterm", 30, 100, ssh.TerminalModes{}))
	var out bytes.Buffer
	session.Stdout = &out
	stdin, err := session.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, session.Shell())
	require.NoError(t, session.WindowChange(50, 132))
	_, err = io.WriteString(stdin, "echo hello; exit 4\n")
	require.NoError(t, err)
	exit := &ssh.ExitError{}
	require.ErrorAs(t, session.Wait(), &exit)
	require.Equal(t, 4, exit.ExitStatus())
	require.Equal(t, "hello\n", out.String())
	require.Equal(t, []string{"100x30", "132x50"}, server.Sizes())
	require.Equal(t, []string{"exec sh"}, server.Commands())
}

func TestFiles_begin_in_the_home_directory(t *testing.T) {
	dir := t.TempDir()
	_, client := mustLogin(t, sshtest.Options{Dir: dir})
	files, err := sftp.NewClient(client)
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	file, err := files.Create("new")
	require.NoError(t, err)
	_, err = file.Write([]byte("content"))
	require.NoError(t, err)
	require.NoError(t, file.Close())
	content, err := os.ReadFile(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
}

func TestNothing_but_sessions(t *testing.T) {
	server, client := mustLogin(t, sshtest.Options{})
	_, err := client.Dial("tcp", "198.18.0.1:80")
	require.ErrorContains(t, err, "only sessions", "it is no way into other networks")
	ok, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
	require.NoError(t, err, "an unknown request is answered")
	require.False(t, ok)
	require.Empty(t, server.Commands())
}

func TestManySessionsAtOnce(t *testing.T) {
	server, client := mustLogin(t, sshtest.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			out, err := run(t, client, fmt.Sprintf("cat; echo %d", i), "x")
			if err != nil || out != fmt.Sprintf("x%d\n", i) {
				t.Errorf("session %d: %q %v", i, out, err)
			}
		})
	}
	all.Wait()
	require.Len(t, server.Commands(), 8)
}

// What a server's sshd refuses, this one refuses too.
func TestSessions_refuse_what_there_is_not(t *testing.T) {
	server, client := mustLogin(t, sshtest.Options{})
	session, err := client.NewSession()
	require.NoError(t, err)
	defer func() { _ = session.Close() }()
	require.ErrorContains(t, session.RequestSubsystem("netconf"), "subsystem request failed")
	ok, err := session.SendRequest("x11-req", true, nil)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, session.Setenv("LANG", "C"))
	out, err := session.Output("echo still here")
	require.NoError(t, err)
	require.Equal(t, "still here\n", string(out))
	require.Equal(t, []string{"echo still here"}, server.Commands())
}

// A home directory that is not there is a failure of the command, not of the login.
func TestCommands_without_a_home(t *testing.T) {
	_, client := mustLogin(t, sshtest.Options{Dir: filepath.Join(t.TempDir(), "none")})
	_, err := run(t, client, "true", "")
	exit := &ssh.ExitError{}
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 255, exit.ExitStatus())
}

// Whoever connects and says nothing, or nothing of SSH, disturbs nobody.
func TestConnections_of_strangers(t *testing.T) {
	signer, _ := key(t)
	server := sshtest.Start(t, sshtest.Options{})
	address := net.JoinHostPort(server.Host, fmt.Sprint(server.Port))
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n\xff\xff\xff\xff"} {
		connection, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		_, err = io.WriteString(connection, text)
		require.NoError(t, err)
	}
	client, err := login(t, server, signer)
	require.NoError(t, err)
	out, err := run(t, client, "echo $((6 * 7))", "")
	require.NoError(t, err)
	require.Equal(t, "42\n", out)
}

// The server is gone when the test is over: its port is free, and those who were logged in see the end.
func TestStart_ends_with_the_test(t *testing.T) {
	var server *sshtest.Server
	var client *ssh.Client
	signer, _ := key(t)
	t.Run("inner", func(t *testing.T) {
		server = sshtest.Start(t, sshtest.Options{})
		var err error
		client, err = ssh.Dial("tcp", net.JoinHostPort(server.Host, fmt.Sprint(server.Port)), &ssh.ClientConfig{
			User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(server.HostKey())})
		require.NoError(t, err)
	})
	require.Error(t, client.Wait(), "the connection is closed")
	_, err := net.Dial("tcp", net.JoinHostPort(server.Host, fmt.Sprint(server.Port)))
	require.ErrorContains(t, err, "connection refused")
}

// What a client sends in pieces, slowly and until it closes its side, is the command's standard input as a whole.
func TestCommands_read_until_the_client_is_done(t *testing.T) {
	_, client := mustLogin(t, sshtest.Options{})
	session, err := client.NewSession()
	require.NoError(t, err)
	var out bytes.Buffer
	session.Stdout = &out
	stdin, err := session.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, session.Start("wc -c | tr -d ' '; echo done"))
	for range 100 {
		_, err = stdin.Write(bytes.Repeat([]byte("x"), 10_000))
		require.NoError(t, err)
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, session.Wait())
	require.Equal(t, "1000000\ndone\n", out.String())
}

// The two outputs stay apart, as a client needs it that writes one of them into a file.
func TestCommands_keep_the_outputs_apart(t *testing.T) {
	_, client := mustLogin(t, sshtest.Options{})
	for range 5 {
		session, err := client.NewSession()
		require.NoError(t, err)
		var out, errs bytes.Buffer
		session.Stdout, session.Stderr = &out, &errs
		require.NoError(t, session.Run("for i in 1 2 3; do echo out$i; echo err$i >&2; done"))
		require.Equal(t, "out1\nout2\nout3\n", out.String())
		require.Equal(t, "err1\nerr2\nerr3\n", errs.String())
	}
}

// Files are served as on a real server: modes, directories, and what is not there.
func TestFiles_as_on_a_server(t *testing.T) {
	dir := t.TempDir()
	_, client := mustLogin(t, sshtest.Options{Dir: dir})
	files, err := sftp.NewClient(client)
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	require.NoError(t, files.MkdirAll("a/b"))
	file, err := files.Create("a/b/c")
	require.NoError(t, err)
	require.NoError(t, file.Chmod(0o640))
	require.NoError(t, file.Close())
	info, err := os.Stat(filepath.Join(dir, "a", "b", "c"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	_, err = files.Stat("a/none")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, files.Symlink("c", "a/b/link"))
	entries, err := files.ReadDir("a/b")
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.NotZero(t, entries[1].Mode()&os.ModeSymlink)
	require.ErrorContains(t, files.Mkdir("a/none/x"), "file does not exist")
}

// Two servers, and two users of one, have nothing to do with each other.
func TestServers_are_apart(t *testing.T) {
	first, firstClient := mustLogin(t, sshtest.Options{Env: []string{"WHO=first"}})
	second, secondClient := mustLogin(t, sshtest.Options{Env: []string{"WHO=second"}})
	for client, want := range map[*ssh.Client]string{firstClient: "first\n", secondClient: "second\n"} {
		out, err := run(t, client, "echo $WHO", "")
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	require.Len(t, first.Commands(), 1)
	require.Len(t, second.Commands(), 1)
	require.Empty(t, first.Sizes())
}
