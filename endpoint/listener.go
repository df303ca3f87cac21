package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// listener accepts as many connections as the limits say.
type listener struct {
	net.Listener
	connections *shares
}

// connection gives its claim back when it is closed.
type connection struct {
	net.Conn
	claim *claim
}

// listen opens the address; name is the port's in metrics.
func listen(ctx context.Context, name, address string, l Limits) (net.Listener, error) {
	var config net.ListenConfig
	inner, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	refused := refusals.WithLabelValues(name, "connections")
	return &listener{Listener: inner, connections: newShares(int64(l.Connections), int64(l.ConnectionsPerAddress), refused.Inc)}, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		claim := l.connections.claim(addressOf(conn.RemoteAddr().String()), 1, func() { _ = conn.Close() })
		if claim == nil {
			_ = conn.Close()
			continue
		}
		return &connection{Conn: conn, claim: claim}, nil
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.claim.release()
	return c.Conn.Close()
}

type claimKey struct{}

// withClaim lets a request say of its connection that it is good for something.
func withClaim(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if ours, ok := conn.(*connection); ok {
		return context.WithValue(ctx, claimKey{}, ours.claim)
	}
	return ctx
}

func proveConnection(ctx context.Context) {
	if c, ok := ctx.Value(claimKey{}).(*claim); ok {
		c.prove()
	}
}

// quiet drops what the HTTP server logs of each bad handshake: anybody could fill the log with it.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// Plain makes a server without TLS, for metrics, health or profiles, that a manager starts before anything else; nil when the
// address is 0.
func Plain(ctx context.Context, name, address string, handler http.Handler, l Limits) (*manager.Server, error) {
	if address == "0" {
		return nil, nil
	}
	bound, err := listen(ctx, name, address, l)
	if err != nil {
		return nil, err
	}
	return &manager.Server{Name: name, Server: newHTTPServer(handler, l), Listener: bound}, nil
}
