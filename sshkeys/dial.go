package sshkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	defaultDialTimeout = 30 * time.Second
	keepAliveInterval  = 15 * time.Second
	// maxSilence is how many intervals a server may leave a question unanswered.
	maxSilence = 3
)

// Dialer makes the connection SSH runs over; net.Dialer is one.
type Dialer interface {
	// DialContext returns a connection or an error of any kind.
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Options of Dial; the zero value is fine.
type Options struct {
	// Dialer makes the connection; a net.Dialer when nil.
	Dialer Dialer
	// Timeout bounds connecting and logging in; 30 seconds when 0.
	Timeout time.Duration
	// Learn is called with the known_hosts line of the server's key if none is recorded. If nil,
	// unknown keys are rejected.
	Learn func(knownHosts []byte) error
	// KeepAlive is the interval of keepalives; after three of them without a response the
	// connection is closed. 15 seconds by default.
	KeepAlive time.Duration
}

// Client is a logged-in SSH connection.
type Client struct {
	ssh *ssh.Client
	// closed ends the keepalives; silent is true if the server stopped answering them.
	closed chan struct{}
	close  sync.Once
	silent atomic.Bool
}

// Dial logs in to a server. Errors can be ErrHostKeyUnknown and ErrHostKeyChanged. The context
// bounds connecting and logging in; Close ends the connection.
func Dial(ctx context.Context, access Access, options Options) (*Client, error) {
	access, err := access.checked()
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(access.PrivateKey)
	if err != nil {
		return nil, errors.New("reading the SSH private key: it is no OpenSSH or PEM key without passphrase")
	}
	keys, err := HostKeys(access.KnownHosts)
	if err != nil {
		return nil, err
	}
	config := &ssh.ClientConfig{
		User: access.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyAlgorithms: hostKeyAlgorithms(keys),
		ClientVersion: "SSH-2.0-drover", Timeout: cmp.Or(max(options.Timeout, 0), defaultDialTimeout),
		HostKeyCallback: hostKeyCallback(access, keys, options.Learn),
	}
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	dialer := cmp.Or[Dialer](options.Dialer, &net.Dialer{KeepAlive: keepAliveInterval})
	connection, err := dialer.DialContext(ctx, "tcp", access.Address())
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", access.Address(), err)
	}
	client, err := handshake(ctx, connection, access, config)
	if ctx.Err() != nil && err != nil {
		// That the connection was closed is our own doing.
		return nil, fmt.Errorf("logging in to %s as %s: %w", access.Address(), access.User, ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("logging in to %s as %s: %w", access.Address(), access.User, err)
	}
	go client.keepAlive(cmp.Or(options.KeepAlive, keepAliveInterval))
	return client, nil
}

// handshake closes the connection if the context ends first, because the SSH library does not
// support contexts.
func handshake(ctx context.Context, connection net.Conn, access Access, config *ssh.ClientConfig) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	transport, channels, requests, err := ssh.NewClientConn(connection, access.Address(), config)
	if err != nil {
		stop()
		_ = connection.Close()
		return nil, err
	}
	if !stop() {
		_ = transport.Close()
		return nil, context.Cause(ctx)
	}
	return &Client{ssh: ssh.NewClient(transport, channels, requests), closed: make(chan struct{})}, nil
}

// keepAlive closes a connection whose server has fallen silent, because a command on a server that
// is gone would wait for ever.
func (c *Client) keepAlive(every time.Duration) {
	for pause := time.NewTimer(every); ; pause.Reset(every) {
		select {
		case <-c.closed:
			return
		case <-pause.C:
		}
		answered := make(chan error, 1)
		go func() {
			// Servers answer requests that they do not know, too (RFC 4254, section 4).
			_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		select {
		case err := <-answered:
			if err != nil {
				return
			}
		case <-time.After(maxSilence * every):
			c.silent.Store(true)
			_ = c.ssh.Close()
			return
		}
	}
}

// Close ends the connection and whatever runs on it.
func (c *Client) Close() error {
	c.close.Do(func() { close(c.closed) })
	if err := c.ssh.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the SSH connection: %w", err)
	}
	return nil
}
