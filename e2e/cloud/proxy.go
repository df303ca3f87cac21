package cloud

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const dialTimeout = 5 * time.Second

// tunnels is the HTTP proxy that leads unmodified drivers to the cloud: a handler for CONNECT
// requests.
type tunnels struct {
	// routes are from "host:port" in lower case, as clients ask for it, to the address that is
	// dialled instead.
	routes map[string]string
	// running ends all tunnels; http.Server does not know of them any more.
	running context.Context

	mu      sync.Mutex
	refused []string
}

// ServeHTTP tunnels a CONNECT request with a route and refuses anything else.
func (t *tunnels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := t.routes[strings.ToLower(r.Host)]
	if r.Method != http.MethodConnect || !ok {
		t.mu.Lock()
		t.refused = append(t.refused, r.Host)
		t.mu.Unlock()
		allowed := strings.Join(slices.Sorted(maps.Keys(t.routes)), ", ")
		message := fmt.Sprintf("local cloud proxy: %s to %s is refused; only CONNECT to %s is allowed", r.Method, r.Host, allowed)
		http.Error(w, message, http.StatusForbidden)
		return
	}
	upstream, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		http.Error(w, fmt.Sprintf("local cloud proxy: %s cannot be reached now", r.Host), http.StatusBadGateway)
		return
	}
	client, said, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = upstream.Close()
		return
	}
	end := func() {
		_ = client.Close()
		_ = upstream.Close()
	}
	defer context.AfterFunc(t.running, end)()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n") // whom this does not reach, the tunnel ends for
	var both sync.WaitGroup
	pipe := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // an ended connection is how tunnels end
		end()
	}
	both.Go(func() { pipe(upstream, said) })
	both.Go(func() { pipe(client, upstream) })
	both.Wait()
}

// RefusedDestinations returns the destinations that the proxy rejected.
func (c *Cloud) RefusedDestinations() []string {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	return slices.Clone(c.proxy.refused)
}
