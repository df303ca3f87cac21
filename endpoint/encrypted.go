package endpoint

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-project/drover/limit"
)

// AgentLimits let thousands of agents keep one connection each, many of them behind one address. A
// handler gives a watch or a download more time. A TLS handshake costs at least half a millisecond
// of CPU time before the client is known. At this rate one address gets a tenth of a core, 3000
// agents behind it that have lost their connections reconnect within half a minute, and 100 new
// servers there have five connections each.
var AgentLimits = Limits{Connections: 6000, ConnectionsPerAddress: 3000, NewPerSecond: 100, NewAtOnce: 500,
	ReadTimeout: 20 * time.Second, WriteTimeout: 30 * time.Second}

// Encrypted creates a server with TLS that a manager starts on every replica and before anything
// else; name is the port's in metrics. It does not speak HTTP/2: a client that grants no window
// there keeps 128 responses of one connection in memory, which no limit of requests counts once
// they are written.
func Encrypted(ctx context.Context, name, address string, handler http.Handler, getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	l Limits) (*manager.Server, error) {
	bound, err := listen(ctx, name, address, l)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: getCertificate, NextProtos: []string{"http/1.1"}}
	return &manager.Server{Name: name, Server: newHTTPServer(handler, l), Listener: tls.NewListener(bound, config)}, nil
}

// Prefer protects the request's connection: if the address has too many, its other connections are
// closed first. A handler calls it for a request that it answers.
func Prefer(ctx context.Context) {
	if permit, ok := ctx.Value(permitKey{}).(*limit.Permit[netip.Addr]); ok {
		permit.Prefer()
	}
}
