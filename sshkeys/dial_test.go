package sshkeys_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// serverWithAccess starts a server that knows one key, and returns the way in with the host key recorded.
func serverWithAccess(t *testing.T) (*sshtest.Server, sshkeys.Access) {
	t.Helper()
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	server := sshtest.Start(t, sshtest.Options{AuthorizedKey: pair.Public})
	return server, sshkeys.Access{
		User: "root", Host: server.Host, Port: server.Port, PrivateKey: pair.Private, PublicKey: pair.Public,
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey),
	}
}

func dial(t *testing.T, access sshkeys.Access) *sshkeys.Client {
	t.Helper()
	client, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestDial(t *testing.T) {
	server, access := serverWithAccess(t)
	t.Run("learns the host key at first contact", func(t *testing.T) {
		unknown := access
		unknown.KnownHosts = nil
		var learned []byte
		client, err := sshkeys.Dial(t.Context(), unknown, sshkeys.Options{Learn: func(lines []byte) error {
			learned = lines
			return nil
		}})
		require.NoError(t, err)
		require.NoError(t, client.Close())
		require.Equal(t, string(access.KnownHosts), string(learned))
	})
	t.Run("does not repeat the key when it cannot be read", func(t *testing.T) {
		broken := access
		broken.PrivateKey = []byte("MARKER-secret")
		_, err := sshkeys.Dial(t.Context(), broken, sshkeys.Options{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "MARKER")
	})
	t.Run("ends with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := sshkeys.Dial(ctx, access, sshkeys.Options{})
		require.ErrorIs(t, err, context.Canceled)
	})
	require.Empty(t, server.Commands())
}

func TestRun(t *testing.T) {
	server, access := serverWithAccess(t)
	client := dial(t, access)
	var stdout, stderr bytes.Buffer

	status, err := client.Run(t.Context(), sshkeys.Command{
		Line: "cat; echo " + sshkeys.Quote("it's $HOME") + "; echo oops >&2; exit 7", Stdin: strings.NewReader("in\n"),
		Stdout: &stdout, Stderr: &stderr,
	})
	require.NoError(t, err)
	require.Equal(t, 7, status)
	require.Equal(t, "in\nit's $HOME\n", stdout.String())
	require.Equal(t, "oops\n", stderr.String())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Run(ctx, sshkeys.Command{Line: "sleep 60"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, server.Commands(), 2)
}

func TestShell(t *testing.T) {
	server, access := serverWithAccess(t)
	client := dial(t, access)
	sizes := make(chan sshkeys.Size, 1)
	sizes <- sshkeys.Size{Columns: 132, Rows: 50}
	close(sizes)
	var stdout bytes.Buffer

	status, err := client.Run(t.Context(), sshkeys.Command{Terminal: &sshkeys.Terminal{Size: sshkeys.Size{Columns: 100, Rows: 30}, Resize: sizes},
		Stdin: strings.NewReader("echo hello\nexit 3\n"), Stdout: &stdout})
	require.NoError(t, err)
	require.Equal(t, 3, status)
	require.Equal(t, "hello\n", stdout.String())
	require.Contains(t, server.Sizes(), "100x30")
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}
