package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// encrypted serves on the port of agents, with a certificate of the moment.
func encrypted(t *testing.T, cert *tls.Certificate, l Limits) (address string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/good" {
			Prefer(r.Context())
		}
		fmt.Fprint(w, r.Proto)
	})
	server, err := Encrypted(t.Context(), "agents", "127.0.0.1:0", handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil }, l)
	require.NoError(t, err)
	require.False(t, server.NeedLeaderElection(), "every replica answers")
	run(t, server)
	return server.Listener.Addr().String()
}

// The port speaks TLS of today; who says nothing is ended; when there are too many connections those go that are good for nothing.
func TestEncrypted(t *testing.T) {
	cert, pool := certificate(t)
	address := encrypted(t, &cert, Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	ask := func() (reused bool) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/good", nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1", string(got), "the other lets an answer stand for nothing")
		return reused
	}
	require.False(t, ask())
	for range 40 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	require.True(t, ask(), "the agent's connection is there yet")
	_, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	require.Error(t, err)
	address = encrypted(t, &cert, Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: 50 * time.Millisecond, WriteTimeout: time.Minute})
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, silent.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = silent.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// Who opens connections as fast as he can gets few handshakes, whoever comes from elsewhere is answered meanwhile, and who has a connection behind the
// flooder's address keeps it.
func TestEncrypted_underAttack(t *testing.T) {
	cert, pool := certificate(t)
	limits := AgentLimits
	limits.NewPerSecond, limits.NewAtOnce = 10, 50
	address := encrypted(t, &cert, limits)
	client := func(from string, keep bool) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DialContext: dialer.DialContext, DisableKeepAlives: !keep}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	ask := func(by *http.Client) time.Duration {
		begin := time.Now()
		resp, err := by.Get("https://" + address + "/good") //nolint:noctx // it ends with the server
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body) // by that its connection is kept
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return time.Since(begin)
	}
	neighbour := client("127.0.0.2", true)
	ask(neighbour)

	const attackers, each = 50, 40
	refused := refusalsOf(t, "new connections")
	begin := time.Now()
	var handshakes atomic.Int64
	var flood sync.WaitGroup
	for range attackers {
		flood.Go(func() {
			dialer := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}, Config: &tls.Config{RootCAs: pool}}
			for range each {
				conn, err := dialer.DialContext(t.Context(), "tcp", address)
				if err != nil {
					continue
				}
				handshakes.Add(1)
				_ = conn.Close()
			}
		})
	}
	flooded, end := context.WithCancel(t.Context())
	go func() {
		flood.Wait()
		end()
	}()
	var slowest time.Duration
	for agents := 0; agents < 10 || flooded.Err() == nil; agents++ {
		from := fmt.Sprintf("127.0.1.%d", 1+agents%250) // each of them calls once in a while
		slowest = max(slowest, ask(client(from, false)))
		ask(neighbour)
	}
	t.Logf("%d handshakes of %d connections in %s; slowest answer to an agent %s", handshakes.Load(), attackers*each, time.Since(begin), slowest)
	require.LessOrEqual(t, float64(handshakes.Load()), 50+10*time.Since(begin).Seconds())
	require.InDelta(t, attackers*each-handshakes.Load(), refusalsOf(t, "new connections")-refused, 0)
}

// refusalsOf is how many the metric has counted of a kind.
func refusalsOf(t *testing.T, what string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(refusals))
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, metric := range families[0].GetMetric() {
		if metric.GetLabel()[1].GetValue() == what {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}
