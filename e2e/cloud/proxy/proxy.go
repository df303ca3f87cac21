package proxy

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const dialTimeout = 5 * time.Second

// Proxy is an HTTP handler for CONNECT requests.
type Proxy struct {
	routes map[string]string
	log    *slog.Logger

	mu      sync.Mutex
	refused []string
	open    map[net.Conn]bool
	closed  bool
}

var _ http.Handler = (*Proxy)(nil)

// New returns a proxy with routes from "host:port" as clients ask for it to
// the address that is dialled instead; log may be nil.
func New(routes map[string]string, log *slog.Logger) *Proxy {
	lower := make(map[string]string, len(routes)) // host names have no case
	for name, address := range routes {
		lower[strings.ToLower(name)] = address
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Proxy{routes: lower, log: log, open: map[net.Conn]bool{}}
}

// Refused returns the destinations that clients asked for in vain, in order.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// ServeHTTP tunnels a CONNECT request with a route and refuses anything else.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := p.routes[strings.ToLower(r.Host)]
	if r.Method != http.MethodConnect || !ok {
		p.mu.Lock()
		if len(p.refused) < 1000 {
			p.refused = append(p.refused, r.Host)
		}
		p.mu.Unlock()
		allowed := strings.Join(slices.Sorted(maps.Keys(p.routes)), ", ")
		message := fmt.Sprintf("local cloud proxy: %s to %s is refused; only CONNECT to %s is allowed", r.Method, r.Host, allowed)
		http.Error(w, message, http.StatusForbidden)
		return
	}
	upstream, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		http.Error(w, fmt.Sprintf("local cloud proxy: %s cannot be reached now", r.Host), http.StatusBadGateway)
		return
	}
	client, err := p.accept(w)
	if err != nil {
		p.log.Debug("tunnelling", "host", r.Host, "error", err)
		_ = upstream.Close()
		return
	}
	p.tunnel(client, upstream)
}

// accept answers the CONNECT and takes the connection over.
func (p *Proxy) accept(w http.ResponseWriter) (net.Conn, error) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("taking connection over: %w", err)
	}
	if buffered.Reader.Buffered() > 0 { // no client may talk before it was answered
		_ = client.Close()
		return nil, fmt.Errorf("taking connection over: client sent data too early")
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("answering: %w", err)
	}
	return client, nil
}

// tunnel copies both ways until either side ends.
func (p *Proxy) tunnel(client, upstream net.Conn) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = client.Close()
		_ = upstream.Close()
		return
	}
	p.open[client], p.open[upstream] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, client)
		delete(p.open, upstream)
	}()
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // an ended connection is how tunnels end
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { pipe(upstream, client) })
	both.Go(func() { pipe(client, upstream) })
	both.Wait()
}

// Close ends all tunnels; http.Server does not know of them any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for conn := range p.open {
		_ = conn.Close()
	}
}
