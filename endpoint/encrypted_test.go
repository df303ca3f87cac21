package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// encrypted serves on the port of agents, with a certificate of the moment.
func encrypted(t *testing.T, cert *tls.Certificate, l Limits) (address string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/good" {
			Prove(r.Context())
		}
		fmt.Fprint(w, r.Proto)
	})
	server, err := Encrypted(t.Context(), "agents", "127.0.0.1:0", handler, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil }, l)
	require.NoError(t, err)
	require.False(t, server.NeedLeaderElection(), "every replica answers")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return server.Listener.Addr().String()
}

// The port speaks TLS of today; who says nothing is ended; when there are too many connections those go that are good for nothing.
func TestEncrypted(t *testing.T) {
	cert, pool := certificate(t)
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(want, func(t *testing.T) {
			address := encrypted(t, &cert, Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: want == "HTTP/2.0"}
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
				require.Equal(t, want, string(got))
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
		})
	}
	address := encrypted(t, &cert, Limits{Connections: 8, ConnectionsPerAddress: 8, ReadTimeout: 50 * time.Millisecond, WriteTimeout: time.Minute})
	silent, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, silent.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = silent.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
