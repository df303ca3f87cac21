package controlplane_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/pki"
)

// realEtcd is an etcd of this process, with the configuration a server would
// give it; stop ends it as SIGTERM would.
type realEtcd struct {
	controlplane.Options
	cancel context.CancelFunc
	ended  chan error
}

func startEtcd(t *testing.T, o controlplane.Options) *realEtcd {
	t.Helper()
	spec, err := o.Etcd()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &realEtcd{Options: o, cancel: cancel, ended: make(chan error, 1)}
	go func() { e.ended <- controlplane.RunEtcd(ctx, spec.Args[1]) }()
	t.Cleanup(func() { cancel() })
	wait, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	require.NoError(t, o.AwaitEtcd(wait))
	return e
}

func (e *realEtcd) stop(t *testing.T) {
	t.Helper()
	e.cancel()
	require.NoError(t, <-e.ended)
}

// withPorts gives etcd ports that are free now.
func withPorts(t *testing.T) controlplane.Options {
	t.Helper()
	o := issued(t)
	o.NoFsync = true
	o.Config.EtcdClientPort, o.Config.EtcdPeerPort = unusedPort(t), unusedPort(t)
	return o
}

func unusedPort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	return number
}

// dialEtcd is a client with a certificate.
func dialEtcd(t *testing.T, o controlplane.Options, ca *pki.Authority, pair pki.Pair) *clientv3.Client {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{o.EtcdURL()}, Logger: zap.NewNop(),
		TLS: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func within(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestEtcd_runs_with_the_configuration_it_is_given(t *testing.T) {
	o := withPorts(t)
	first := startEtcd(t, o)
	client := dialEtcd(t, o, o.Store.Etcd, o.EtcdClientPair())
	_, err := client.Put(within(t, 10*time.Second), "kept", "value")
	require.NoError(t, err)

	t.Run("strangers are kept out", func(t *testing.T) {
		for name, pair := range map[string]pki.Pair{
			"administrator of Kubernetes": o.AdminPair(),
			"front proxy":                 pki.PairAt(o.Dir.Path("pki"), "front-proxy-client"),
		} {
			stranger := dialEtcd(t, o, o.Store.Etcd, pair)
			_, err := stranger.Get(within(t, time.Second/2), "kept")
			require.Error(t, err, name)
		}
	})
	t.Run("members", func(t *testing.T) { members(t, o) })
	t.Run("data and members outlast a restart", func(t *testing.T) {
		first.stop(t)
		again := startEtcd(t, o)
		got, err := client.Get(within(t, 10*time.Second), "kept")
		require.NoError(t, err)
		require.Equal(t, "value", string(got.Kvs[0].Value))
		again.stop(t)
		info, err := os.Stat(o.Dir.Path("etcd", "member"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), "every Secret is in it")
	})
}

func members(t *testing.T, o controlplane.Options) {
	t.Helper()
	const two, three = "https://127.0.0.2:2380", "https://127.0.0.3:2380"
	want := []string{"two=" + two, "n=" + o.EtcdPeerURL()}
	for range 2 { // a machine that was interrupted asks again
		got, err := o.AddMember(t.Context(), "two", two)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := o.AddMember(t.Context(), "n", three)
	require.EqualError(t, err, "adding etcd member n: another server of the cluster has this name: choose another with --node-name")
	_, err = o.AddMember(t.Context(), "three", three)
	require.ErrorContains(t, err, "adding etcd member: the server at "+two+" has not finished joining: let it finish first: ")
	require.NoError(t, o.PromoteMember(t.Context(), "n"), "it votes already")
	require.EqualError(t, o.PromoteMember(t.Context(), "two"), "promoting etcd member two: it has not started")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = o.AddMember(canceled, "two", two)
	require.ErrorContains(t, err, "listing etcd members: ")
}

func TestRunEtcd_says_why(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, taken.Close()) })
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, o *controlplane.Options)
		want  string
	}{
		"port in use": {
			func(t *testing.T, o *controlplane.Options) {
				t.Helper()
				o.Config.EtcdPeerPort = taken.Addr().(*net.TCPAddr).Port
			},
			"starting etcd: listen tcp " + taken.Addr().String() + ": bind: address already in use",
		},
		"no certificate": {
			func(t *testing.T, o *controlplane.Options) {
				t.Helper()
				require.NoError(t, os.Remove(pki.PairAt(o.Dir.Path("pki"), "etcd-server").Cert))
			},
			"etcd-server.crt: no such file or directory",
		},
		"a file in the way": {
			func(t *testing.T, o *controlplane.Options) {
				t.Helper()
				require.NoError(t, o.Dir.Write(nil, "etcd", "member"))
			},
			"etcd/member",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := withPorts(t)
			tc.spoil(t, &o)
			spec, err := o.Etcd()
			require.NoError(t, err)
			require.ErrorContains(t, controlplane.RunEtcd(within(t, 30*time.Second), spec.Args[1]), tc.want)
		})
	}
	require.ErrorContains(t, controlplane.RunEtcd(t.Context(), filepath.Join(t.TempDir(), "none")), "reading etcd configuration: ")
}
