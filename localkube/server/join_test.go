package server

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

func joinable(t *testing.T) *Server {
	t.Helper()
	dir := newDir(t)
	store, err := pki.Open(dir.Path("pki"))
	require.NoError(t, err)
	return &Server{dir: dir, say: newProgress(&bytes.Buffer{}), plane: controlplane.Options{
		Dir: dir, Store: store, AdvertiseAddress: net.IPv4(198, 18, 0, 1),
		Config: datadir.Config{NodeName: "boss", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17", HTTPSPort: 6443},
	}}
}

func request(t *testing.T, name string) (join.AgentRequest, string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	public, err := publicPEM(key)
	require.NoError(t, err)
	return join.AgentRequest{NodeName: name, Address: "198.18.0.2", Kubelet: public, KubeletServing: public, Proxy: public}, key
}

func TestAddAgent_issues_a_node_its_identities(t *testing.T) {
	s := joinable(t)
	req, _ := request(t, "worker")
	res, err := s.AddAgent(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "https://198.18.0.1:6443", res.APIServer)

	kubelet := parse(t, res.Kubelet)
	require.Equal(t, "system:node:worker", kubelet.Subject.CommonName)
	require.Equal(t, []string{"system:nodes"}, kubelet.Subject.Organization)
	require.Equal(t, "system:kube-proxy", parse(t, res.Proxy).Subject.CommonName)
	require.NoError(t, parse(t, res.KubeletServing).VerifyHostname("198.18.0.2"))
	_, err = kubelet.Verify(x509.VerifyOptions{Roots: s.plane.Store.Cluster.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
}

func TestAddAgent_keeps_names_to_their_keys(t *testing.T) {
	s := joinable(t)
	first, _ := request(t, "worker")
	_, err := s.AddAgent(t.Context(), first)
	require.NoError(t, err)
	_, err = s.AddAgent(t.Context(), first)
	require.NoError(t, err, "the same machine may come back")

	thief, _ := request(t, "worker")
	_, err = s.AddAgent(t.Context(), thief)
	require.ErrorIs(t, err, join.ErrDenied)
	boss, _ := request(t, "boss")
	_, err = s.AddAgent(t.Context(), boss)
	require.ErrorIs(t, err, join.ErrDenied)
	broken, _ := request(t, "broken")
	broken.Proxy = []byte("x")
	_, err = s.AddAgent(t.Context(), broken)
	require.ErrorIs(t, err, join.ErrDenied)
}

func TestJoinCluster_refuses_a_directory_with_a_cluster(t *testing.T) {
	s := joinable(t)
	s.opts = Options{JoinURL: "https://127.0.0.1:1"}
	require.ErrorContains(t, s.joinCluster(t.Context()), "cannot join another")
	s.plane.Config.InitialCluster = "boss=https://x"
	require.NoError(t, s.joinCluster(t.Context()), "who has joined needs no other server")
}

func parse(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}
