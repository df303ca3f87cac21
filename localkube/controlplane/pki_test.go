package controlplane

import (
	"crypto/tls"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/datadir"
)

// Authorities and keys that sign stay, what they signed is renewed, and addresses may change.
func TestIssueIdentities(t *testing.T) {
	p := &Plane{Dir: datadir.Dir(t.TempDir()), Ports: datadir.Ports{HTTPS: 6443}, NodeName: "n", Bind: net.IPv4(127, 0, 0, 1), Advertise: net.IPv4(127, 0, 0, 1),
		Services: ServiceCIDR}
	require.NoError(t, p.IssueIdentities())
	read := func(name string) string {
		raw, err := os.ReadFile(p.Dir.Path("pki", name))
		require.NoError(t, err)
		return string(raw)
	}
	kept := []string{"ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "etcd/ca.crt", "etcd/ca.key"}
	var first []string
	for _, name := range kept {
		first = append(first, read(name))
	}
	old := read("apiserver.crt")
	p.Bind, p.Advertise = net.IPv4zero, net.IPv4(198, 18, 0, 1)
	require.NoError(t, p.IssueIdentities())
	for i, name := range kept {
		require.Equal(t, first[i], read(name), name)
	}
	require.NotEqual(t, old, read("apiserver.crt"))
	pair, err := tls.LoadX509KeyPair(p.Dir.Path("pki", "apiserver.crt"), p.Dir.Path("pki", "apiserver.key"))
	require.NoError(t, err)
	for _, name := range []string{"198.18.0.1", "127.0.0.1", "198.19.128.1", "localhost", "kubernetes.default.svc", "n"} {
		require.NoError(t, pair.Leaf.VerifyHostname(name), name)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.Dir.ComponentKubeconfig("admin"))
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:6443", config.Host)
	require.Equal(t, read("ca.crt"), string(config.CAData))
	admin, err := tls.X509KeyPair(config.CertData, config.KeyData)
	require.NoError(t, err)
	require.Equal(t, []string{"system:masters"}, admin.Leaf.Subject.Organization)
}
