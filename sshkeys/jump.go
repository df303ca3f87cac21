package sshkeys

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// JumpHost connects to a server through another host that accepts the same SSH key, like OpenSSH's
// ProxyJump. The jump host's own key is not verified: an impostor can only drop the connection,
// like any host on the path, because the server's key is verified end to end.
type JumpHost struct {
	// Host is [user@]host[:port]; the default user is the server's, the default port 22.
	Host string
	// Access to the server; the jump host uses its user and key.
	Access Access
	// Timeout bounds connecting and logging in to the jump host; 30 seconds when 0.
	Timeout time.Duration
}

var _ Dialer = JumpHost{}

// DialContext connects to the address through the jump host. Its errors name that host.
func (j JumpHost) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !rkev1.IsSSHJumpHost(j.Host) {
		return nil, fmt.Errorf("the jump host %q is not [user@]host[:port]", j.Host)
	}
	access := Access{User: j.Access.User, Host: j.Host, PrivateKey: j.Access.PrivateKey}
	if user, host, ok := strings.Cut(j.Host, "@"); ok {
		access.User, access.Host = user, host
	}
	if host, port, err := net.SplitHostPort(access.Host); err == nil {
		access.Host = host
		access.Port, _ = strconv.Atoi(port) // it is a number, because IsSSHJumpHost has checked it
	}
	access.Host = strings.Trim(access.Host, "[]")
	// Every host key is accepted, and not stored.
	host, err := Dial(ctx, access, Options{Timeout: j.Timeout, Learn: func([]byte) error { return nil }})
	if err != nil {
		// An error of the jump host must not look like one of the server.
		return nil, fmt.Errorf("%w: %v", ErrJumpHost, err) //nolint:errorlint // see above
	}
	connection, err := host.ssh.DialContext(ctx, network, address)
	if err != nil {
		_ = host.Close()
		if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok && refused.Reason == ssh.Prohibited {
			return nil, fmt.Errorf("%w %s forwards no connection to %s (AllowTcpForwarding in its sshd_config): %w", ErrJumpHost, access.Address(), address, err)
		}
		return nil, fmt.Errorf("%w %s does not reach %s: %w", ErrJumpHost, access.Address(), address, err)
	}
	return &jumpedConn{Conn: connection, host: host}, nil
}

// jumpedConn ends the connection to the jump host with the one to the server.
type jumpedConn struct {
	net.Conn

	host *Client
}

// Close implements net.Conn.
func (c *jumpedConn) Close() error { return errors.Join(c.Conn.Close(), c.host.Close()) }
