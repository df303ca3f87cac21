package sshkeys_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/sshkeys"
)

// freezer makes connections that can fall silent, as with a server that lost its power: nothing arrives, nothing is refused.
type freezer struct {
	frozen chan struct{}
	once   sync.Once
}

func (f *freezer) freeze() { f.once.Do(func() { close(f.frozen) }) }

func (f *freezer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &freezing{Conn: connection, freezer: f, closed: make(chan struct{})}, err
}

type freezing struct {
	net.Conn
	freezer *freezer
	closed  chan struct{}
	once    sync.Once
}

func (c *freezing) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	select {
	case <-c.freezer.frozen:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *freezing) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// freezeAtFirst freezes the connection once the command has begun to speak.
type freezeAtFirst struct{ freezer *freezer }

func (w freezeAtFirst) Write(text []byte) (int, error) {
	w.freezer.freeze()
	return len(text), nil
}

func TestRun_ends_when_the_server_falls_silent(t *testing.T) {
	_, access := serverWithAccess(t)
	freezer := &freezer{frozen: make(chan struct{})}
	client, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{Dialer: freezer, KeepAlive: 50 * time.Millisecond})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	stdin, never := io.Pipe()
	defer func() { _ = never.Close() }()
	_, err = client.Run(t.Context(), sshkeys.Command{Line: "echo begun; cat", Stdin: stdin, Stdout: freezeAtFirst{freezer}})
	require.ErrorIs(t, err, sshkeys.ErrSilent)
}

func TestRun_of_a_quiet_command_goes_on(t *testing.T) {
	_, access := serverWithAccess(t)
	// A busy machine has three times that to answer.
	client, err := sshkeys.Dial(t.Context(), access, sshkeys.Options{KeepAlive: 400 * time.Millisecond})
	require.NoError(t, err)
	status, err := client.Run(t.Context(), sshkeys.Command{Line: "sleep 1; exit 7"})
	require.NoError(t, err)
	require.Equal(t, 7, status, "the questions were answered meanwhile")
	require.NoError(t, client.Close())
	require.NoError(t, client.Close(), "twice does no harm")
}
