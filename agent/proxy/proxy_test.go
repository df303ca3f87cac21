package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/drover-project/drover/agent/proxy"
)

// world is a client with an environment, a server, and a proxy between them, all on loopback.
type world struct {
	t       *testing.T
	clock   *testingclock.FakeClock
	proxies *proxy.Proxies
	// transport is cloned for each request, so that each has a connection of its own.
	transport *http.Transport
	server    *httptest.Server
	log       strings.Builder

	mu  sync.Mutex
	env map[string]string
	// tunnels counts the connections through the proxy, direct the others.
	tunnels, direct int
	// answer replaces the proxy's answer to CONNECT.
	answer string
	// hang makes the proxy accept connections without an answer.
	hang bool
	// unreachable lets only the proxy reach the server.
	unreachable bool
	bodies      []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)), env: map[string]string{}}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bodies = append(w.bodies, string(content))
	}))
	w.server.EnableHTTP2 = true
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	log := funcr.New(func(_, args string) { w.log.WriteString(args + "\n") }, funcr.Options{})
	w.proxies = proxy.New(proxy.Options{Clock: w.clock, Log: log, ConnectTimeout: 200 * time.Millisecond, Get: func(names ...string) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range names {
			if w.env[name] != "" {
				return w.env[name]
			}
		}
		return ""
	}})
	w.transport = w.server.Client().Transport.(*http.Transport)
	// The certificate of httptest names example.com, which no resolver has to know here.
	w.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "example.com:443" {
			w.mu.Lock()
			w.direct++
			unreachable := w.unreachable
			w.mu.Unlock()
			if unreachable {
				return nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
			}
			address = w.server.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return w
}

// startProxy listens on an address and returns its URL, which has a password. stop ends it with all its connections.
func (w *world) startProxy(address string) (url string, stop func()) {
	w.t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(w.t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(w.tunnel)}
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(listener) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = server.Close()
			w.server.CloseClientConnections() // the tunnels
			all.Wait()
		})
	}
	w.t.Cleanup(stop)
	return "http://user:canary@" + listener.Addr().String(), stop
}

func (w *world) tunnel(answer http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	refuses, hangs := w.answer, w.hang
	w.tunnels++
	w.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	conn, buffered, err := answer.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if refuses != "" {
		_, _ = io.WriteString(conn, "HTTP/1.1 "+refuses+"\r\n\r\n")
		return
	}
	to, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(to, buffered) }()
	_, _ = io.Copy(conn, to)
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// ask sends a request on a connection of its own, and returns how it went: through the proxy, or directly.
func (w *world) ask() (string, error) {
	w.t.Helper()
	transport := w.transport.Clone()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: w.proxies.Transport(transport)}
	w.set(func() { w.tunnels, w.direct = 0, 0 })
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, "https://example.com/", bytes.NewReader([]byte("body")))
	require.NoError(w.t, err)
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	require.NoError(w.t, answer.Body.Close())
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(w.t, "body", w.bodies[len(w.bodies)-1])
	switch {
	case w.tunnels > 0 && w.direct > 0:
		return "both", nil
	case w.tunnels > 0:
		return "proxy", nil
	}
	return "direct", nil
}

func (w *world) asks(want string) {
	w.t.Helper()
	got, err := w.ask()
	require.NoError(w.t, err)
	require.Equal(w.t, want, got)
}

func TestProxies(t *testing.T) {
	w := newWorld(t)
	w.asks("direct")
	url, stop := w.startProxy("127.0.0.1:0")
	name := "http://" + url[strings.Index(url, "@")+1:]
	w.set(func() { w.env["HTTPS_PROXY"] = url })
	w.asks("proxy") // a variable that came later counts
	w.set(func() { w.env["NO_PROXY"] = "example.com" })
	w.asks("direct")
	w.set(func() { delete(w.env, "NO_PROXY"); w.env["https_proxy"] = "http://ignored.invalid" })
	w.asks("proxy")
	require.Empty(t, w.proxies.Failed())

	stop()
	w.asks("direct")
	require.Equal(t, name+": connect: connection refused", w.proxies.Failed())
	w.asks("direct")
	require.Equal(t, 1, strings.Count(w.log.String(), "does not answer"), "logged once")
	require.NotContains(t, w.log.String()+w.proxies.Failed(), "canary")

	// It answers again: after the pause, or at once if it is the only way.
	url, stop = w.startProxy(name[len("http://"):])
	w.asks("direct")
	w.clock.Step(6 * time.Minute)
	w.asks("proxy")
	require.Empty(t, w.proxies.Failed())
	stop()
	w.asks("direct")
	_, stop = w.startProxy(name[len("http://"):])
	w.set(func() { w.unreachable = true })
	w.asks("both")
	require.Empty(t, w.proxies.Failed())

	// Without any way the error names the proxy and both reasons.
	stop()
	_, err := w.ask()
	require.ErrorContains(t, err, "through the proxy "+name+": ")
	require.ErrorContains(t, err, "connection refused; without a proxy: ")
	require.NotContains(t, err.Error(), "canary")
	w.set(func() { w.unreachable = false })
	w.asks("direct")
	require.NotEmpty(t, w.proxies.Failed())
	w.set(func() { delete(w.env, "HTTPS_PROXY") })
	require.Empty(t, w.proxies.Failed(), "a proxy that is removed is not reported")
}

// TestProxies_broken: a proxy that accepts connections and does not make any.
func TestProxies_broken(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		says   string
	}{
		"it hangs":          {func(w *world) { w.hang = true }, "no connection through it in time"},
		"it wants a login":  {func(w *world) { w.answer = "407 Proxy Authentication Required" }, "Proxy Authentication Required"},
		"it has no network": {func(w *world) { w.answer = "502 Bad Gateway" }, "Bad Gateway"},
		"it is not a proxy": {func(w *world) { w.answer = "hello" }, "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			url, _ := w.startProxy("127.0.0.1:0")
			w.set(func() { w.env["HTTPS_PROXY"] = url; tt.change(w) })
			w.asks("both")
			require.Contains(t, w.proxies.Failed(), tt.says)
			w.asks("direct")
		})
	}
}

// TestProxies_none: without proxies a transport uses none, also not from the process's environment.
func TestProxies_none(t *testing.T) {
	var none *proxy.Proxies
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	require.Equal(t, http.RoundTripper(transport), none.Transport(transport))
	require.Nil(t, transport.Proxy)
	require.Empty(t, proxy.New(proxy.Options{Log: logr.Discard()}).Failed())
}
