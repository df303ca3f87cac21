package sshkeys_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

func TestRun_every_way_to_end(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	large := bytes.Repeat([]byte("\x00\xff\n"), 400_000)
	for name, tt := range map[string]struct {
		line   string
		stdin  []byte
		status int
		out    []byte
	}{
		"well":                         {line: "true"},
		"with a status":                {line: "exit 42", status: 42},
		"with the largest status":      {line: "exit 255", status: 255},
		"by a signal":                  {line: "kill -TERM $$", status: sshkeys.NoStatus},
		"not found":                    {line: "no-such-command-here", status: 127},
		"a megabyte through and back":  {line: "cat", stdin: large, out: large},
		"without reading its input":    {line: "echo done", stdin: large, out: []byte("done\n")},
		"with a background job behind": {line: "sleep 0.01 & echo front", out: []byte("front\n")},
		"an argument with everything":  {line: "printf %s " + sshkeys.Quote("a'b\"c$(d)`e`\n;&|<>*?\\"), out: []byte("a'b\"c$(d)`e`\n;&|<>*?\\")},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			status, err := client.Run(t.Context(), sshkeys.Command{Line: tt.line, Stdin: bytes.NewReader(tt.stdin), Stdout: &out})
			require.NoError(t, err)
			require.Equal(t, tt.status, status)
			require.True(t, bytes.Equal(tt.out, out.Bytes()), "%d bytes", out.Len())
		})
	}
}

func TestRun_without_a_connection(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	require.NoError(t, client.Close())
	_, err := client.Run(t.Context(), sshkeys.Command{Line: "true"})
	require.ErrorContains(t, err, "opening an SSH session: ")
	require.ErrorContains(t, client.WriteFile(t.Context(), "x", nil, 0o600), "the server does not offer SFTP: ")

	// The server lets in and then refuses every session.
	keys := hostKeys(t)
	var logins []string
	refusing := listen(t, daemon([]ssh.Signer{keys["ed25519"]}, true, &logins))
	refusing.KnownHosts = sshkeys.KnownHostsLine(refusing.Host, refusing.Port, keys["ed25519"].PublicKey())
	client = dial(t, refusing)
	_, err = client.Run(t.Context(), sshkeys.Command{Line: "true"})
	require.ErrorContains(t, err, "opening an SSH session: ssh: rejected: administratively prohibited (")
}

// The reader of the output is gone: the command is not waited for in vain, and the error is the writer's.
func TestRun_whose_output_nobody_takes(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	_, err := client.Run(t.Context(), sshkeys.Command{Line: "echo x", Stdout: brokenWriter{}})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestShell_defaults_of_a_terminal(t *testing.T) {
	server, access := serverWithAccess(t)
	client := dial(t, access)
	for _, size := range []sshkeys.Size{{}, {Columns: -1, Rows: 5}, {Columns: 5}} {
		status, err := client.Run(t.Context(), sshkeys.Command{Terminal: &sshkeys.Terminal{Size: size},
			Stdin: strings.NewReader("exit 0\n"), Stdout: io.Discard})
		require.NoError(t, err)
		require.Zero(t, status)
	}
	require.Equal(t, []string{"80x24", "80x24", "80x24"}, server.Sizes())
}

// TestQuote_makes_one_word: a real shell makes exactly one word of it, whatever it holds.
func TestQuote_makes_one_word(t *testing.T) {
	check := func(text string) {
		if strings.ContainsRune(text, 0) {
			return // no argument can hold it
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf '%s|' "+sshkeys.Quote(text)+" end").Output()
		require.NoError(t, err)
		require.Equal(t, text+"|end|", string(out))
	}
	for _, seed := range []string{"", "a b", "it's", "$HOME", "`x`", "\n", "-n", "\\", "'\\''", "\xff", "!x", "a\rb"} {
		check(seed)
	}
}

// Uploading over a file that others could read does not leave the new content readable for a moment, nor the old content behind.
func TestWriteFile_over_another(t *testing.T) {
	_, access := serverWithAccess(t)
	client, remote := dial(t, access), t.TempDir()
	name := filepath.Join(remote, "secret")
	require.NoError(t, os.WriteFile(name, []byte("much longer than the new one"), 0o600))
	require.NoError(t, os.Chmod(name, 0o644))
	require.NoError(t, client.WriteFile(t.Context(), name, []byte("new"), 0o600))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "new", string(content))
}

// stubbornFiles serves SFTP that accepts every write, and keeps its side of the channel open for ever.
func stubbornFiles(key ssh.Signer) func(net.Conn) {
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(key)
	return func(connection net.Conn) {
		_, channels, requests, err := ssh.NewServerConn(connection, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for incoming := range channels {
			channel, requests, err := incoming.Accept()
			if err != nil {
				return
			}
			go func() {
				for request := range requests {
					_ = request.Reply(request.Type == "subsystem", nil)
				}
			}()
			go func() { _ = sftp.NewRequestServer(channel, sftp.InMemHandler()).Serve() }()
		}
	}
}

// A server that never ends SFTP does not keep the caller waiting: the file is written.
func TestWriteFile_to_a_stubborn_server(t *testing.T) {
	key := hostKeys(t)["ed25519"]
	access := listen(t, stubbornFiles(key))
	access.KnownHosts = sshkeys.KnownHostsLine(access.Host, access.Port, key.PublicKey())
	require.NoError(t, dial(t, access).WriteFile(t.Context(), "/file", []byte("content"), 0o600))
}

// The server is gone before a file is written.
func TestWriteFile_breaks_off(t *testing.T) {
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	server := sshtest.Start(t, sshtest.Options{AuthorizedKey: pair.Public})
	freezer := &freezer{frozen: make(chan struct{})}
	client, err := sshkeys.Dial(t.Context(), sshkeys.Access{Host: server.Host, Port: server.Port, PrivateKey: pair.Private,
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)}, sshkeys.Options{Dialer: freezer, KeepAlive: 50 * time.Millisecond})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, client.WriteFile(t.Context(), file, []byte("x"), 0o600))
	freezer.freeze()
	require.Error(t, client.WriteFile(t.Context(), file, []byte("x"), 0o600), "it ends, and not well")
}

// A login that ends while a command runs is an error, not a status: nobody knows whether the command came to its end.
func TestRun_of_which_the_end_is_not_known(t *testing.T) {
	_, access := serverWithAccess(t)
	client := dial(t, access)
	ended := make(chan error)
	begun := make(chan struct{})
	go func() {
		status, err := client.Run(context.Background(), sshkeys.Command{Line: "echo begun; exec cat", Stdin: neverEnding{}, Stdout: closeAtFirst(begun)})
		if err == nil {
			err = fmt.Errorf("status %d", status)
		}
		ended <- err
	}()
	<-begun
	require.NoError(t, client.Close())
	err := <-ended
	require.ErrorContains(t, err, "running a command over SSH: ")
	require.NotErrorIs(t, err, sshkeys.ErrSilent, "it was we who hung up")
}

// closeAtFirst tells that something was written.
type closeAtFirst chan struct{}

func (c closeAtFirst) Write(text []byte) (int, error) {
	close(c)
	return len(text), nil
}

// neverEnding is the keyboard of somebody who types nothing.
type neverEnding struct{}

func (neverEnding) Read([]byte) (int, error) { select {} }
