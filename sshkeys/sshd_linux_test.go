package sshkeys_test

import (
	"bytes"
	"context"
	"errors"
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
				"one that is deaf": {line: "trap '' TERM; echo ready; sleep 5"},
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
					require.Less(t, time.Since(started), 4*time.Second)
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
