package controlplane_test

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

func options(t *testing.T, bind, advertise string) controlplane.Options {
	t.Helper()
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "d"))
	require.NoError(t, err)
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	return controlplane.Options{
		Dir:         dir,
		Store:       store,
		BindAddress: net.ParseIP(bind), AdvertiseAddress: net.ParseIP(advertise),
		ExtraNames: []string{"api.example", "198.18.0.1"},
		Config: datadir.Config{
			NodeName: "n", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17",
			HTTPSPort: 6443, EtcdClientPort: 2379, EtcdPeerPort: 2380,
		},
	}
}

func TestServingCertificate_has_every_name(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	require.NoError(t, o.IssueIdentities())
	raw, err := os.ReadFile(o.ServingPair().Cert)
	require.NoError(t, err)
	block, _ := pem.Decode(raw)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	for _, name := range []string{
		"kubernetes.default.svc", "localhost", "n", "api.example", "127.0.0.1", "198.19.128.1", "198.18.0.1", "198.18.0.9",
	} {
		require.NoError(t, cert.VerifyHostname(name), name)
	}
}

func TestURLs(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	require.Equal(t, "https://127.0.0.1:6443", o.URL())
	require.Equal(t, "https://198.18.0.9:6443", o.AdvertiseURL())
	require.Equal(t, "https://198.18.0.9:2380", o.EtcdPeerURL())
	require.Equal(t, "https://127.0.0.1:2379", o.EtcdURL())
	o.BindAddress = net.ParseIP("198.18.0.9")
	require.Equal(t, "https://198.18.0.9:6443", o.URL())
}

func TestAPIServer_has_no_endpoint_on_loopback(t *testing.T) {
	none := "--endpoint-reconciler-type=none"
	require.Contains(t, options(t, "127.0.0.1", "127.0.0.1").APIServer().Args, none)
	require.NotContains(t, options(t, "0.0.0.0", "198.18.0.9").APIServer().Args, none)
}

func TestComponents_name_files_not_secrets(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	etcd, err := o.Etcd()
	require.NoError(t, err)
	key, err := os.ReadFile(o.Store.ServiceAccountKey())
	require.NoError(t, err)
	for _, args := range [][]string{etcd.Args, o.APIServer().Args, o.ControllerManager().Args, o.Scheduler().Args} {
		require.NotContains(t, strings.Join(args, " "), strings.Split(string(key), "\n")[1])
	}
}

func TestControllers_elect_a_leader_when_replicated(t *testing.T) {
	o := options(t, "127.0.0.1", "127.0.0.1")
	require.Contains(t, o.ControllerManager().Args, "--leader-elect=false")
	require.True(t, o.Scheduler().Restart)
	o.Config.Replicated = true
	require.Contains(t, o.ControllerManager().Args, "--leader-elect=true")
	require.Contains(t, o.Scheduler().Args, "--leader-elect=true")
}

func TestEtcd_joins_what_it_was_given(t *testing.T) {
	o := options(t, "127.0.0.1", "127.0.0.1")
	require.Contains(t, etcdConfig(t, o), `"initial-cluster-state": "new"`)
	o.Config.InitialCluster = "a=https://a:1,n=https://n:1"
	joined := etcdConfig(t, o)
	require.Contains(t, joined, `"initial-cluster-state": "existing"`)
	require.Contains(t, joined, o.Config.InitialCluster)
	require.Contains(t, joined, `"client-cert-auth": true`)
}

func etcdConfig(t *testing.T, o controlplane.Options) string {
	t.Helper()
	spec, err := o.Etcd()
	require.NoError(t, err)
	raw, err := os.ReadFile(spec.Args[1])
	require.NoError(t, err)
	return string(raw)
}

func TestFirstServiceIP(t *testing.T) {
	ip, err := controlplane.FirstServiceIP("198.19.128.0/17")
	require.NoError(t, err)
	require.Equal(t, "198.19.128.1", ip.String())
	for _, bad := range []string{"", "x", "fd00::/108", "198.19.128.0/32", "198.19.128.255/32"} {
		_, err := controlplane.FirstServiceIP(bad)
		require.Error(t, err, bad)
	}
}
