package cloud

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveProxy runs a proxy with the routes for the length of the test.
func serveProxy(t *testing.T, routes map[string]string) (*Cloud, *url.URL) {
	t.Helper()
	running, end := context.WithCancel(t.Context())
	p := &Cloud{proxy: &tunnels{routes: routes, running: running}, endTunnels: end}
	s := httptest.NewServer(p.proxy)
	t.Cleanup(func() { end(); s.Close() })
	address, err := url.Parse(s.URL)
	require.NoError(t, err)
	return p, address
}

// dial opens a connection to the proxy and sends text.
func dial(t *testing.T, address *url.URL, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

// echo is a TCP server that answers every line with itself.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// connect opens a tunnel and returns it when it is open.
func connect(t *testing.T, address *url.URL, host string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, reader := dial(t, address, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	status, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 Connection established\r\n", status)
	blank, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "\r\n", blank)
	return conn, reader
}

func TestAnUnmodifiedClientReachesItsRouteOverTLS(t *testing.T) {
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, io.MultiReader(strings.NewReader(r.Host+" got "), r.Body))
	}))
	t.Cleanup(upstream.Close)
	p, address := serveProxy(t, map[string]string{"example.com:443": upstream.Listener.Addr().String()})
	transport := upstream.Client().Transport.(*http.Transport).Clone() // its certificate is for example.com
	transport.Proxy = http.ProxyURL(address)
	client := &http.Client{Transport: transport}
	body := strings.Repeat("x", 1<<20)
	response, err := client.Post("https://example.com/", "text/plain", strings.NewReader(body))
	require.NoError(t, err)
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "example.com got "+body, string(got))
	client.CloseIdleConnections()
	require.Empty(t, p.RefusedDestinations())
}

func TestEverythingElseIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		request string
		host    string
		says    string
	}{
		"another host":  {"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n", "evil.test:443", "CONNECT to evil.test:443"},
		"another port":  {"CONNECT a.test:22 HTTP/1.1\r\nHost: a.test:22\r\n\r\n", "a.test:22", "CONNECT to a.test:22"},
		"no port":       {"CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test", "CONNECT to a.test"},
		"plain HTTP":    {"GET http://a.test:443/ HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "a.test:443", "GET to a.test:443"},
		"subdomain":     {"CONNECT x.a.test:443 HTTP/1.1\r\nHost: x.a.test:443\r\n\r\n", "x.a.test:443", "CONNECT to x.a.test:443"},
		"literal":       {"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n", "127.0.0.1:443", "CONNECT to 127.0.0.1:443"},
		"IPv6":          {"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\r\n", "[::1]:443", "CONNECT to [::1]:443"},
		"not a proxy":   {"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "here", "GET to here"},
		"host mismatch": {"CONNECT evil.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", "evil.test:443", "CONNECT to evil.test:443"},
	} {
		t.Run(name, func(t *testing.T) {
			p, address := serveProxy(t, map[string]string{"b.test:80": "127.0.0.1:1", "a.test:443": "127.0.0.1:1"})
			_, reader := dial(t, address, test.request)
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			body, err := io.ReadAll(io.LimitReader(response.Body, 1024))
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusForbidden, response.StatusCode)
			require.Equal(t, "local cloud proxy: "+test.says+" is refused; only CONNECT to a.test:443, b.test:80 is allowed\n", string(body))
			require.Equal(t, []string{test.host}, p.RefusedDestinations())
		})
	}
}

func TestARouteThatIsDownIsABadGateway(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p, address := serveProxy(t, map[string]string{"a.test:443": listener.Addr().String()})
	_, reader := dial(t, address, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
	require.NoError(t, response.Body.Close())
	require.Empty(t, p.RefusedDestinations())
}

func TestAnEndOnEitherSideEndsTheTunnel(t *testing.T) {
	hangUp := make(chan struct{})
	ended := make(chan error, 2)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		first, err := listener.Accept()
		if err == nil {
			<-hangUp
			_, _ = io.WriteString(first, "bye")
			ended <- first.Close()
		}
		second, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, second)
			ended <- err
		}
	}()
	_, address := serveProxy(t, map[string]string{"a.test:443": listener.Addr().String()})
	_, reader := connect(t, address, "a.test:443")
	close(hangUp)
	rest, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, "bye", string(rest), "what was said last still arrives")
	require.NoError(t, <-ended)
	conn, _ := connect(t, address, "a.test:443")
	require.NoError(t, conn.Close())
	require.NoError(t, <-ended, "the upstream hears that the client went")
}

func TestCloseEndsOpenTunnelsAndAllowsNoMore(t *testing.T) {
	p, address := serveProxy(t, map[string]string{"a.test:443": echo(t)})
	_, first := connect(t, address, "a.test:443")
	_, second := connect(t, address, "a.test:443")
	p.endTunnels()
	for _, reader := range []*bufio.Reader{first, second} {
		_, err := reader.ReadByte()
		require.Error(t, err)
	}
	_, late := connect(t, address, "a.test:443")
	_, err := late.ReadByte()
	require.Error(t, err)
	p.endTunnels()
}
