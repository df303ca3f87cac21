package controlplane_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/pki"
)

// serve answers on loopback with a certificate of the given authority and lets
// in nobody without one; it returns the port.
func serve(t *testing.T, by *pki.Authority, pair pki.Pair, handler http.HandlerFunc) int {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: by.Pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	parsed, err := url.Parse(server.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(parsed.Port())
	require.NoError(t, err)
	return port
}

func issued(t *testing.T) controlplane.Options {
	t.Helper()
	o := options(t, "127.0.0.1", "127.0.0.1")
	require.NoError(t, o.IssueIdentities())
	return o
}

func TestReady(t *testing.T) {
	o := issued(t)
	var code atomic.Int32
	o.Config.HTTPSPort = serve(t, o.Store.Cluster, o.ServingPair(), func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.TLS.PeerCertificates[0].Subject.CommonName != controlplane.AdminUser {
			http.Error(w, "unexpected", http.StatusTeapot)
			return
		}
		w.WriteHeader(int(code.Load()))
		_, _ = w.Write([]byte("etcd is slow"))
	})
	code.Store(http.StatusOK)
	require.NoError(t, o.Ready(t.Context(), o.URL()))
	code.Store(http.StatusInternalServerError)
	require.ErrorContains(t, o.Ready(t.Context(), o.URL()), "500 Internal Server Error: etcd is slow")
}

func TestReady_trusts_its_own_authority_only(t *testing.T) {
	o, other := issued(t), issued(t)
	o.Config.HTTPSPort = serve(t, other.Store.Cluster, other.ServingPair(), func(http.ResponseWriter, *http.Request) {})
	require.ErrorContains(t, o.Ready(t.Context(), o.URL()), "certificate")
}

func TestAwaitAPIServer_asks_until_it_is_ready(t *testing.T) {
	o := issued(t)
	var asked atomic.Int32
	o.Config.HTTPSPort = serve(t, o.Store.Cluster, o.ServingPair(), func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	require.NoError(t, o.AwaitAPIServer(t.Context()))
	require.EqualValues(t, 3, asked.Load())
}

func TestAwaitEtcd(t *testing.T) {
	o := issued(t)
	etcd := pki.PairAt(o.Dir.Path("pki"), "etcd-server")
	o.Config.EtcdClientPort = serve(t, o.Store.Etcd, etcd, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	require.NoError(t, o.AwaitEtcd(t.Context()))
}

func TestAwait_ends_with_the_cause(t *testing.T) {
	o := issued(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o.Config.HTTPSPort = listener.Addr().(*net.TCPAddr).Port
	o.Config.EtcdClientPort = o.Config.HTTPSPort
	require.NoError(t, listener.Close())
	boom := errors.New("etcd ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	require.ErrorIs(t, o.AwaitAPIServer(ctx), boom)
	require.ErrorIs(t, o.AwaitEtcd(ctx), boom)
	require.ErrorContains(t, o.Ready(t.Context(), o.URL()), "connection refused")
}

func TestAwait_without_identities(t *testing.T) {
	o := options(t, "127.0.0.1", "127.0.0.1")
	for _, await := range []func(context.Context) error{o.AwaitAPIServer, o.AwaitEtcd} {
		require.ErrorContains(t, await(t.Context()), "loading client certificate")
	}
	_, err := o.AddMember(t.Context(), "n", "https://n:1")
	require.ErrorContains(t, err, "loading etcd certificate")
	require.ErrorContains(t, o.PromoteMember(t.Context(), "n"), "loading etcd certificate")
}
