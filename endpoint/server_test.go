package endpoint

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// certificate signs itself, for the server or for a client.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// run runs a server until the test ends.
func run(t *testing.T, server manager.Runnable) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

// start runs a webhook server that answers with the length of the body, and gives its address and a client.
func start(t *testing.T, opts WebhookOptions) (address string, client *http.Client) {
	t.Helper()
	cert, pool := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = listener.Addr().String()
	require.NoError(t, listener.Close())
	opts.Host, opts.Port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	opts.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
	server := NewWebhooks(opts)
	server.Register("/length", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err, r.Proto)
	}))
	require.ErrorContains(t, server.StartedChecker()(nil), "has not been started yet")
	run(t, server)
	require.Eventually(t, func() bool { return server.StartedChecker()(nil) == nil }, time.Minute, time.Millisecond)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return address, &http.Client{Transport: transport}
}

func post(t *testing.T, client *http.Client, address string, body io.Reader) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+"/length", body)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestWebhooks_bodies(t *testing.T) {
	address, client := start(t, WebhookOptions{})
	for _, size := range []int{1, smallBody, smallBody + 1, maxBody} {
		code, text, err := post(t, client, address, bytes.NewReader(make([]byte, size)))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, fmt.Sprint(size, error(nil), "HTTP/2.0"), text)
	}
	code, _, err := post(t, client, address, bytes.NewReader(make([]byte, maxBody+1)))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	code, _, err = post(t, client, address, io.MultiReader(strings.NewReader("of unknown length")))
	require.NoError(t, err)
	require.Equal(t, http.StatusLengthRequired, code)
}

// Who does not know the path is answered before anything of his request's body is read.
func TestWebhooks_unknownPath(t *testing.T) {
	address, client := start(t, WebhookOptions{Strip: func(path string) (string, bool) { return strings.CutPrefix(path, "/word") }})
	for path, want := range map[string]int{"/word/length": http.StatusOK, "/length": http.StatusNotFound, "/": http.StatusNotFound, "/word/none": http.StatusNotFound} {
		reader := &counted{Reader: strings.NewReader(strings.Repeat("x", 6<<20))}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+path, reader)
		require.NoError(t, err)
		req.ContentLength = 6 << 20
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
		if !strings.HasPrefix(path, "/word") {
			require.Less(t, reader.read.Load(), int64(2<<20), "no more than what is on its way")
		}
	}
}

// counted counts what is sent.
type counted struct {
	io.Reader
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Whatever a client leaves unfinished ends, and whoever comes from elsewhere is answered meanwhile.
func TestWebhooks_unfinished(t *testing.T) {
	limits := WebhookLimits
	limits.ReadTimeout, limits.Connections, limits.ConnectionsPerAddress = time.Second, 20, 10
	address, client := start(t, WebhookOptions{Limits: limits})
	code, _, err := post(t, client, address, strings.NewReader("before"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	large := fmt.Sprintf("POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 1<<20-1))
	for name, c := range map[string]struct {
		send  string
		plain bool
	}{
		"nothing":            {"", false},
		"no handshake":       {"", true},
		"half a handshake":   {"\x16\x03\x01\x02\x00\x01", true},
		"half a header":      {"POST /length HTTP/1.1\r\nHost: x\r\nA: ", false},
		"an endless header":  {"POST /length HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("x", 64<<10), false},
		"a body but a byte":  {"POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123456789", false},
		"a large but a byte": {large, false},
	} {
		t.Run(name, func(t *testing.T) {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
			ended := make(chan struct{}, 30)
			for range 30 {
				conn, err := dialer.DialContext(t.Context(), "tcp", address)
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				if !c.plain {
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
				}
				go func() {
					_, _ = io.WriteString(conn, c.send)
					_, _ = io.Copy(io.Discard, conn)
					ended <- struct{}{}
				}()
			}
			code, _, err := post(t, client, address, strings.NewReader("healthy"))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, code)
			for range 30 {
				select {
				case <-ended:
				case <-time.After(time.Minute):
					require.Fail(t, "a connection is held for ever")
				}
			}
		})
	}
}

// Where API servers have a certificate, nobody else's request is read.
func TestWebhooks_clientCertificate(t *testing.T) {
	_, others := certificate(t)
	address, client := start(t, WebhookOptions{ClientCA: others})
	_, _, err := post(t, client, address, strings.NewReader("{}"))
	require.Error(t, err)

	cert, pool := certificate(t)
	address, client = start(t, WebhookOptions{ClientCA: pool})
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{cert}
	code, _, err := post(t, client, address, strings.NewReader("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
}

// The other ports are bounded alike.
func TestPlain(t *testing.T) {
	none, err := Plain(t.Context(), "none", "0", nil, PlainLimits)
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = Plain(t.Context(), "bad", "127.0.0.1:99999", nil, PlainLimits)
	require.ErrorContains(t, err, "listening for bad: ")

	limits := PlainLimits
	limits.ReadTimeout = time.Second
	server, err := Plain(t.Context(), "metrics", "127.0.0.1:0", Metrics(), limits)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	address := server.Listener.Addr().String()
	for range 2 * limits.Connections {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nA: ")
		t.Cleanup(func() { _ = conn.Close() })
	}
	resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // it ends with the server
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	cancel()
	require.NoError(t, <-ended)
}
