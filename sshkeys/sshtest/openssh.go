package sshtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// OpenSSH is a running sshd, for tests of behaviour that Server does not have.
type OpenSSH struct {
	Host    string
	Port    int
	User    string
	HostKey ssh.PublicKey
}

// StartOpenSSH serves the user of the test process and one authorized key on loopback until the
// test ends. Without OpenSSH's server the test is skipped.
func StartOpenSSH(tb testing.TB, authorizedKey []byte) OpenSSH {
	tb.Helper()
	return startOpenSSH(tb, authorizedKey, "Subsystem sftp internal-sftp")
}

// StartOpenSSHWithoutSFTP is StartOpenSSH with an sshd that has no SFTP, or with an SFTP program that
// does not exist.
func StartOpenSSHWithoutSFTP(tb testing.TB, authorizedKey []byte, program string) OpenSSH {
	tb.Helper()
	if program != "" {
		program = "Subsystem sftp " + program
	}
	return startOpenSSH(tb, authorizedKey, program)
}

func startOpenSSH(tb testing.TB, authorizedKey []byte, subsystem string) OpenSSH {
	tb.Helper()
	const binary = "/usr/sbin/sshd"
	if _, err := os.Stat(binary); err != nil {
		tb.Skip("no OpenSSH server here: hack/setup.sh installs it")
	}
	if os.Getuid() == 0 {
		require.NoError(tb, os.MkdirAll("/run/sshd", 0o750)) // where sshd locks its unprivileged part up
	}
	dir := tb.TempDir()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(tb, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(tb, err)
	hostKey, err := ssh.NewPublicKey(public)
	require.NoError(tb, err)
	me, err := user.Current()
	require.NoError(tb, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	address, ok := listener.Addr().(*net.TCPAddr)
	require.True(tb, ok)
	require.NoError(tb, listener.Close())
	for name, content := range map[string][]byte{"host": pem.EncodeToMemory(block), "authorized": authorizedKey, "config": fmt.Appendf(nil, `ListenAddress 127.0.0.1:%d
HostKey %[2]s/host
AuthorizedKeysFile %[2]s/authorized
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
%[3]s
`, address.Port, dir, subsystem)} {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	var log bytes.Buffer
	server := exec.Command(binary, "-D", "-e", "-f", filepath.Join(dir, "config"))
	server.Stderr = &log
	require.NoError(tb, server.Start())
	tb.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	require.Eventually(tb, func() bool {
		connection, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port)))
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond, "sshd does not serve")
	return OpenSSH{Host: "127.0.0.1", Port: address.Port, User: me.Username, HostKey: hostKey}
}
