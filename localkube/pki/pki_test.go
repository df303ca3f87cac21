package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/pki"
)

func TestStore_keeps_authorities_and_renews_leaves(t *testing.T) {
	dir := t.TempDir()
	first, err := pki.Open(dir)
	require.NoError(t, err)
	second, err := pki.Open(dir)
	require.NoError(t, err)
	require.Equal(t, first.Cluster.CertPEM(), second.Cluster.CertPEM())

	subject := pki.Subject{Name: "kube-apiserver", DNSNames: []string{"localhost"}, Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	pair, err := second.Issue(second.Cluster, "apiserver", subject)
	require.NoError(t, err)
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	_, err = loaded.Leaf.Verify(x509.VerifyOptions{
		DNSName: "127.0.0.1", Roots: first.Cluster.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.NoError(t, err)
	_, err = loaded.Leaf.Verify(x509.VerifyOptions{Roots: first.Etcd.Pool()})
	require.Error(t, err, "etcd's authority is another one")

	moved, err := second.Issue(second.Cluster, "apiserver", pki.Subject{Name: "kube-apiserver", DNSNames: []string{"other"}})
	require.NoError(t, err)
	renewed, err := tls.LoadX509KeyPair(moved.Cert, moved.Key)
	require.NoError(t, err)
	require.NoError(t, renewed.Leaf.VerifyHostname("other"))
	require.Equal(t, loaded.Leaf.PublicKey, renewed.Leaf.PublicKey, "the key stays")
}

func TestStore_clients_are_not_servers(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin", Groups: []string{"g"}})
	require.NoError(t, err)
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, loaded.Leaf.ExtKeyUsage)
	require.Equal(t, []string{"g"}, loaded.Leaf.Subject.Organization)
}

func TestAdopt(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	store, err := pki.Open(from)
	require.NoError(t, err)
	_, err = store.Shared()
	require.Error(t, err, "tokens are made first")
	for _, role := range []pki.Role{pki.RoleServer, pki.RoleAgent} {
		_, err = store.Token(role)
		require.NoError(t, err)
	}
	files, err := store.Shared()
	require.NoError(t, err)
	files["../evil"] = []byte("x")
	require.NoError(t, pki.Adopt(to, files))
	require.NoFileExists(t, filepath.Join(filepath.Dir(to), "evil"))

	joined, err := pki.Open(to)
	require.NoError(t, err)
	require.Equal(t, store.Cluster.CertPEM(), joined.Cluster.CertPEM())
	delete(files, "ca.key")
	require.ErrorContains(t, pki.Adopt(t.TempDir(), files), "ca.key is missing")
}

func TestToken(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	agent, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	again, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	require.Equal(t, agent, again)
	server, err := store.Token(pki.RoleServer)
	require.NoError(t, err)

	for _, tt := range []struct {
		role   pki.Role
		secret string
		want   error
	}{
		{pki.RoleAgent, agent.Secret, nil},
		{pki.RoleServer, server.Secret, nil},
		{pki.RoleServer, agent.Secret, pki.ErrTokenUnknown},
		{pki.RoleAgent, "", pki.ErrTokenUnknown},
	} {
		require.ErrorIs(t, store.Admits(tt.role, tt.secret), tt.want)
	}

	_, err = agent.Verify(store.Cluster.CertPEM())
	require.NoError(t, err)
	_, err = agent.Verify(store.Etcd.CertPEM())
	require.ErrorContains(t, err, "not the one the join token names")
}

func TestKubeconfig_is_private_and_complete(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	path := filepath.Join(dir, "kubeconfig")
	cfg := pki.Kubeconfig{Server: "https://127.0.0.1:1", CA: store.Cluster.CertPEM(), User: "admin", Pair: pair}
	require.NoError(t, cfg.Write(path))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(raw), dir, "it refers to no other file")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func FuzzParseToken(f *testing.F) {
	f.Add("lk1." + strings.Repeat("ab", 32) + ".secret")
	f.Add("lk1..")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := pki.ParseToken(text)
		if err != nil {
			return
		}
		again, err := pki.ParseToken(token.String())
		require.NoError(t, err)
		require.Equal(t, token, again)
	})
}
