package access_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/cmd/drover/access"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// behind moves the server's address to a port, where a door may be.
func (w *world) behind(t *testing.T, port int) {
	t.Helper()
	secret := w.state(t)
	secret.Data[state.ServerKey] = serverDocument(t, "127.0.0.1", port)
	require.NoError(t, w.replace(t, secret.Data))
}

func (w *world) replace(t *testing.T, data map[string][]byte) error {
	t.Helper()
	secret := stateSecret(data)
	_, err := w.api.Kube.CoreV1().Secrets("shop").Update(t.Context(), secret, updateOptions)
	return err
}

// endings are ways in which a daemon that restarts ends a connection before it has shown its host key.
func endings() map[string]func(net.Conn) {
	return map[string]func(net.Conn){
		"closed at once": func(c net.Conn) { _ = c.Close() },
		"reset": func(c net.Conn) {
			if tcp, ok := c.(*net.TCPConn); ok {
				// No waiting for what is unsent: the other side gets a reset.
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		},
		"closed after its version": func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
			_, _ = io.ReadFull(c, make([]byte, len("SSH-2.0-drover\r\n")))
			_ = c.Close()
		},
		"too many at a time": func(c net.Conn) {
			_, _ = io.WriteString(c, "Exceeded MaxStartups\r\n")
			_ = c.Close()
		},
	}
}

func TestDialWaitsUntilTheDaemonIsBack(t *testing.T) {
	for name, end := range endings() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			d := openDoor(t, 0, w.server, func(number int32, connection net.Conn) bool {
				if number > 2 {
					return false
				}
				end(connection)
				return true
			})
			w.behind(t, d.Port)
			w.login.Patience = 5 * time.Second
			client, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
			require.NoError(t, err)
			require.NoError(t, client.Close())
			require.EqualValues(t, 3, d.opens.Load())
			told := w.told()
			require.Len(t, told, 2, "what is waited for, and that it came")
			require.Regexp(t, `^web-1 does not serve SSH at 127\.0\.0\.1:\d+ yet \((the connection was closed|connection reset by peer)\)\. `+
				`SSH daemons restart shortly after a server was made: trying again for up to 5s$`, told[0])
			require.Regexp(t, `^web-1 serves SSH now, after \ds$`, told[1])
		})
	}
}

// TestDialWaitsUntilTheDaemonListens: connections are refused until the user was told so.
func TestDialWaitsUntilTheDaemonListens(t *testing.T) {
	w := newWorld(t, nil)
	port := reservePort(t)
	w.behind(t, port)
	w.login.Patience = 5 * time.Second
	w.login.Note = func(text string) {
		if len(w.told()) == 0 {
			openDoor(t, port, w.server, nil)
		}
		w.note(text)
	}
	client, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.Contains(t, w.told()[0], "yet (connection refused). ")
}

func TestDialGivesUpWaiting(t *testing.T) {
	w := newWorld(t, nil)
	port := reservePort(t)
	w.behind(t, port)
	w.login.Patience = 30 * time.Millisecond
	_, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.ErrorIs(t, err, sshkeys.ErrNotServing)
	at := "127.0.0.1:" + strconv.Itoa(port)
	require.EqualError(t, err, "connecting to "+at+": dial tcp "+at+": connect: connection refused; it was tried for 30ms whether SSH comes up; "+
		"its SSH daemon may be down, or listen on another port (-p) or address (--address, see 'drover get web-1 -n shop -o json'): "+
		"look at its console in the cloud, and at 'drover why web-1 -n shop'")
	require.Equal(t, []string{"web-1 does not serve SSH at " + at + " yet (connection refused). " +
		"SSH daemons restart shortly after a server was made: trying again for up to 30ms"}, w.told())
}

// TestDialWaitsTwentySeconds by default, which is told, and ends when the user has enough of it.
func TestDialWaitsTwentySeconds(t *testing.T) {
	w := newWorld(t, nil)
	w.behind(t, reservePort(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	w.login.Note = func(text string) { w.note(text); cancel(errors.New("interrupted")) }
	started := time.Now()
	_, err := access.Dial(ctx, w.api, machine("1"), w.login)
	require.ErrorContains(t, err, "waiting until web-1 serves SSH at 127.0.0.1:")
	require.ErrorContains(t, err, ": interrupted")
	require.Less(t, time.Since(started), 5*time.Second)
	require.Len(t, w.told(), 1)
	require.True(t, strings.HasSuffix(w.told()[0], "trying again for up to 20s"), w.told()[0])
}

// TestDialDoesNotWaitForWhatTheUserNamed: it may be wrong, and is told at once.
func TestDialDoesNotWaitForWhatTheUserNamed(t *testing.T) {
	for name, change := range map[string]func(*access.Login, int){
		"port":    func(l *access.Login, port int) { l.Port = port },
		"address": func(l *access.Login, _ int) { l.Address = "localhost" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			port := reservePort(t)
			w.behind(t, port)
			change(&w.login, port)
			_, err := access.Dial(t.Context(), w.api, machine("1"), w.login)
			require.ErrorIs(t, err, sshkeys.ErrNotServing)
			require.NotContains(t, err.Error(), "it was tried")
			require.Empty(t, w.told())
		})
	}
}

// TestDialTriesALoginOnce: a connection that ends after the login began is not made again, for nobody knows what it did.
func TestDialTriesALoginOnce(t *testing.T) {
	w := newWorld(t, nil)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	hostKey, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	d := openDoor(t, 0, w.server, func(_ int32, connection net.Conn) bool {
		config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, connection.Close()
		}}
		config.AddHostKey(hostKey)
		_, _, _, _ = ssh.NewServerConn(connection, config)
		return true
	})
	w.behind(t, d.Port)
	data := w.state(t).Data
	data[state.SSHKnownHostsKey] = sshkeys.KnownHostsLine(d.Host, d.Port, hostKey.PublicKey())
	require.NoError(t, w.replace(t, data))
	_, err = access.Dial(t.Context(), w.api, machine("1"), w.login)
	require.ErrorContains(t, err, "logging in to 127.0.0.1:")
	require.NotErrorIs(t, err, sshkeys.ErrNotServing)
	require.EqualValues(t, 1, d.opens.Load())
	require.Empty(t, w.told())
}

// TestRead_waitsForTheHostKey while the Job that made the server is about to record it, and for nothing else.
func TestRead_waitsForTheHostKey(t *testing.T) {
	var key []byte
	pending := func(until time.Duration) *world {
		return newWorld(t, func(data map[string][]byte) {
			key = data[state.SSHKnownHostsKey]
			delete(data, state.SSHKnownHostsKey)
			result, err := json.Marshal(state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, ContactUntil: time.Now().Add(until)})
			require.NoError(t, err)
			data[state.ResultKey] = result
		})
	}
	w := pending(time.Hour)
	done := make(chan struct{})
	go func() {
		defer close(done)
		data, err := access.Read(t.Context(), w.api, machine("uid-1"), w.login)
		assert.NoError(t, err)
		assert.Equal(t, string(key), string(data.KnownHosts))
	}()
	require.Eventually(t, func() bool { return len(w.told()) == 1 }, time.Minute, 10*time.Millisecond)
	require.Contains(t, w.told()[0], "the Job that made web-1 logs in to it just now, to record its host key: waiting for that, 3m0s at most")
	data := w.state(t).Data
	data[state.SSHKnownHostsKey] = key
	require.NoError(t, w.replace(t, data))
	<-done

	for name, c := range map[string]struct {
		until  time.Duration
		accept bool
	}{"the time is over": {until: -time.Second}, "the user accepts it himself": {until: time.Hour, accept: true}} {
		w := pending(c.until)
		w.login.AcceptNewHostKey = c.accept
		_, err := access.Read(t.Context(), w.api, machine("uid-1"), w.login)
		require.NoError(t, err, name)
		require.Empty(t, w.told(), name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = pending(time.Hour)
	_, err := access.Read(ctx, w.api, machine("uid-1"), w.login)
	require.ErrorContains(t, err, "waiting until the host key of web-1 is recorded")
}
