package endpoint

import (
	"net/http"
	"time"
)

// Limits of one port.
type Limits struct {
	// Connections in all, and of one client address.
	Connections, ConnectionsPerAddress int
	// ReadTimeout is the time for one request to arrive, from its first byte to the last of its body, and for a TLS handshake.
	ReadTimeout time.Duration
	// WriteTimeout is the time for the answer, from the end of the request's header.
	WriteTimeout time.Duration
}

// WebhookLimits are far above what API servers need: each keeps one or two HTTP/2 connections and sends a body at once.
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
	// maxStreams and streamBuffer bound what one HTTP/2 connection makes the server hold before a handler runs.
	maxStreams, streamBuffer = 128, 256 << 10
)

// newHTTPServer makes a server of these limits; those of connections are the listener's.
func newHTTPServer(handler http.Handler, l Limits) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: l.ReadTimeout, ReadTimeout: l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: idleTimeout,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: streamBuffer, MaxReceiveBufferPerStream: streamBuffer,
			SendPingTimeout: 30 * time.Second, PingTimeout: l.ReadTimeout},
		ConnContext: withClaim, ErrorLog: quiet(),
	}
}
