package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-project/drover/limit"
)

// listener accepts as many connections as the limits say.
type listener struct {
	net.Listener
	// connections and newConnections are by client address.
	connections    *limit.Preemptive[netip.Addr]
	newConnections *limit.Buckets[netip.Addr]
	tooFast        func()
}

// connection releases its permit when it is closed.
type connection struct {
	net.Conn
	permit *limit.Permit[netip.Addr]
}

// listen opens the address; name is the port's in metrics.
func listen(ctx context.Context, name, address string, l Limits) (net.Listener, error) {
	var config net.ListenConfig
	inner, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	return &listener{Listener: inner,
		connections: limit.NewPreemptive[netip.Addr](limit.PreemptiveOptions{Total: int64(l.Connections), PerKey: int64(l.ConnectionsPerAddress),
			Rejected: Rejections(name, "connections")}),
		newConnections: limit.NewBuckets[netip.Addr](rate.Limit(l.NewPerSecond), l.NewAtOnce), tooFast: Rejections(name, "new connections")}, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := AddressOf(conn.RemoteAddr().String())
		if !l.newConnections.Allow(address, time.Now()) {
			l.tooFast()
			_ = conn.Close()
			continue
		}
		permit := l.connections.TryAcquire(address, 1, func() { _ = conn.Close() })
		if permit == nil {
			_ = conn.Close()
			continue
		}
		return &connection{Conn: conn, permit: permit}, nil
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.permit.Release()
	return c.Conn.Close()
}

type permitKey struct{}

// Plain creates a server without TLS, for metrics, health or profiles, that a manager starts before
// anything else. It returns nil if the address is 0.
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

// Limits of one port.
type Limits struct {
	// Connections in all, and of one client address.
	Connections, ConnectionsPerAddress int
	// NewPerSecond and NewAtOnce are the rate and the burst of new connections of one client
	// address; 0 means unlimited. Excess connections are closed unread.
	NewPerSecond, NewAtOnce int
	// ReadTimeout is the time for one request to arrive, from its first byte to the last of its
	// body, and for a TLS handshake.
	ReadTimeout time.Duration
	// WriteTimeout is the time for the answer, from the end of the request's header.
	WriteTimeout time.Duration
}

// WebhookLimits are far above the needs of API servers: each keeps one or two HTTP/2 connections
// and sends a body in one go.
var WebhookLimits = Limits{Connections: 256, ConnectionsPerAddress: 64, ReadTimeout: 5 * time.Second, WriteTimeout: 20 * time.Second}

// PlainLimits are for metrics and health.
var PlainLimits = Limits{Connections: 64, ConnectionsPerAddress: 16, ReadTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second}

// ProfileLimits let a profile take its minutes.
var ProfileLimits = Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Minute}

const (
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 90 * time.Second
	// maxHeader is the size of a request's header; an API server's has some 300 bytes.
	maxHeader = 8 << 10
	// maxStreams and streamBuffer bound the memory of one HTTP/2 connection before a handler runs,
	// and for responses that the client does not read. An API server that needs more opens another
	// connection.
	maxStreams, streamBuffer = 32, 256 << 10
)

// newHTTPServer creates a server with these limits; the listener applies the limits of connections.
func newHTTPServer(handler http.Handler, l Limits) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: l.ReadTimeout, ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: idleTimeout,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: streamBuffer, MaxReceiveBufferPerStream: streamBuffer,
			SendPingTimeout: 30 * time.Second, PingTimeout: l.ReadTimeout},
		// Errors of handshakes are dropped: any client could fill the log with them.
		ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context { // allows a handler to prefer its connection
			if encrypted, ok := conn.(*tls.Conn); ok {
				conn = encrypted.NetConn()
			}
			if ours, ok := conn.(*connection); ok {
				return context.WithValue(ctx, permitKey{}, ours.permit)
			}
			return ctx
		},
	}
}

// refusals counts rejected and preempted connections and bodies; more than a few mean an attack.
var refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "drover_endpoint_refused_total", Help: "Connections and request bodies that were rejected or closed at a limit, by port",
}, []string{"port", "what"})

// Rejections returns a function that counts a rejection at a port, or an end of something that was
// admitted before.
func Rejections(port, what string) func() { return refusals.WithLabelValues(port, what).Inc }

// RegisterMetrics adds this package's metrics to controller-runtime's registry; call it once.
func RegisterMetrics() error { return metrics.Registry.Register(refusals) }

// Metrics serves controller-runtime's registry. It limits concurrent responses because each is
// built in memory.
func Metrics() http.Handler {
	const inFlight = 16
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: inFlight}))
	return mux
}
