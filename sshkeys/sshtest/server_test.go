package sshtest_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

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
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(server.HostKey)})
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
	require.NotEqual(t, strict.HostKey.Marshal(), open.HostKey.Marshal(), "each server has a key of its own")
	require.NotEqual(t, strict.Port, open.Port)
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

func TestNothing_but_sessions(t *testing.T) {
	server, client := mustLogin(t, sshtest.Options{})
	_, err := client.Dial("tcp", "198.18.0.1:80")
	require.ErrorContains(t, err, "only sessions", "it is no way into other networks")
	ok, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
	require.NoError(t, err, "an unknown request is answered")
	require.False(t, ok)
	require.Empty(t, server.Commands())
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
	session, err := client.NewSession()
	require.NoError(t, err)
	defer func() { _ = session.Close() }()
	out, err := session.CombinedOutput("echo $((6 * 7))")
	require.NoError(t, err)
	require.Equal(t, "42\n", string(out))
}
