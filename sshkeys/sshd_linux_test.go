package sshkeys_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/sshkeys/sshtest"
)

// sshd starts OpenSSH's server, and returns the way in.
func sshd(t *testing.T) sshkeys.Access {
	t.Helper()
	pair, err := sshkeys.Generate("test")
	require.NoError(t, err)
	server := sshtest.StartOpenSSH(t, pair.Public)
	return sshkeys.Access{User: server.User, Host: server.Host, Port: server.Port, PrivateKey: pair.Private, PublicKey: pair.Public,
		KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)}
}

// TestRun_ends_a_command_that_sleeps: sshd ends a session only when its command ends, and a command may not heed a signal.
func TestRun_ends_a_command_that_sleeps(t *testing.T) {
	_, ours := serverWithAccess(t)
	for server, access := range map[string]func(t *testing.T) sshkeys.Access{"ours": func(*testing.T) sshkeys.Access { return ours }, "sshd": sshd} {
		t.Run(server, func(t *testing.T) {
			access := access(t)
			for name, c := range map[string]struct{ line, said string }{
				"SIGTERM":          {line: "trap 'echo TERM; exit 3' TERM; echo ready; sleep 60 & wait", said: "TERM\n"},
				"one that is deaf": {line: "trap '' TERM; echo ready; sleep 120"},
			} {
				t.Run(name, func(t *testing.T) {
					client := dial(t, access)
					ctx, cancel := context.WithCancelCause(t.Context())
					var out bytes.Buffer
					started := time.Now()
					_, err := client.Run(ctx, sshkeys.Command{Line: c.line, Stdout: writer(func(p []byte) (int, error) {
						if bytes.Contains(p, []byte("ready")) {
							cancel(errStopped)
						}
						return out.Write(p)
					})})
					require.ErrorIs(t, err, errStopped)
					require.Less(t, time.Since(started), time.Minute, "the command sleeps for longer")
					if server == "ours" { // sshd hands signals on to no command of root's
						require.Equal(t, "ready\n"+c.said, out.String())
					}
				})
			}
		})
	}
}

var errStopped = errors.New("stopped")

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A server without SFTP gets files: the mode before any content, over an older file too.
func TestWriteFile_without_SFTP(t *testing.T) {
	for name, program := range map[string]string{"no subsystem": "", "a program that does not exist": "/usr/lib/none/sftp-server"} {
		t.Run(name, func(t *testing.T) {
			pair, err := sshkeys.Generate("test")
			require.NoError(t, err)
			server := sshtest.StartOpenSSHWithoutSFTP(t, pair.Public, program)
			client := dial(t, sshkeys.Access{User: server.User, Host: server.Host, Port: server.Port, PrivateKey: pair.Private, PublicKey: pair.Public,
				KnownHosts: sshkeys.KnownHostsLine(server.Host, server.Port, server.HostKey)})
			path := filepath.Join(t.TempDir(), "it's a file")
			require.NoError(t, os.WriteFile(path, []byte("much longer than the new content"), 0o644))
			content := bytes.Repeat([]byte("\x00'$\n"), 64<<10)
			require.NoError(t, client.WriteFile(t.Context(), path, content, 0o600))
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode())
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))

			err = client.WriteFile(t.Context(), filepath.Join(t.TempDir(), "none", "x"), content, 0o600)
			require.ErrorContains(t, err, "the server does not offer SFTP: ")
			require.ErrorContains(t, err, "exit status ")
		})
	}
}
