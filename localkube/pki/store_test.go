package pki_test

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/pki"
)

func TestOpen_names_the_broken_file(t *testing.T) {
	for name, tt := range map[string]struct{ file, content, want string }{
		"key is no PEM":         {"ca.key", "x", "not PEM"},
		"key is no key":         {"etcd-ca.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "reading key"},
		"certificate is no PEM": {"front-proxy-ca.crt", "x", "opening authority front-proxy-ca: not a PEM certificate"},
		"certificate is a key":  {"ca.crt", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "opening authority ca: not a PEM certificate"},
		"certificate is broken": {"ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "opening authority ca: parsing certificate"},
		"service-account key":   {"service-account.key", "x", "service-account.key: not PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := pki.Open(dir)
			require.NoError(t, err)
			path := filepath.Join(dir, tt.file)
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			_, err = pki.Open(dir)
			require.ErrorContains(t, err, tt.want)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, tt.content, string(raw), "a broken identity is never replaced by a new one")
		})
	}
}

func TestOpen_keeps_everything_private(t *testing.T) {
	dir := t.TempDir()
	_, err := pki.Open(dir)
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 8, "three authorities and one key pair")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
}

func TestFounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	founded, err := pki.Founded(dir)
	require.NoError(t, err)
	require.False(t, founded)
	_, err = pki.Open(dir)
	require.NoError(t, err)
	founded, err = pki.Founded(dir)
	require.NoError(t, err)
	require.True(t, founded)
	_, err = pki.Founded(filepath.Join(dir, "ca.crt"))
	require.ErrorContains(t, err, "looking for identities")
}

func TestAuthority(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	raw, err := os.ReadFile(store.Cluster.CertFile())
	require.NoError(t, err)
	require.Equal(t, string(raw), string(store.Cluster.CertPEM()))
	require.FileExists(t, store.Cluster.KeyFile())
	cert := decode(t, raw)
	require.True(t, cert.IsCA)
	require.Equal(t, "localkube-ca", cert.Subject.CommonName)
	require.True(t, cert.NotBefore.Before(time.Now().Add(-30*time.Minute)), "clocks of other machines may be behind")
	require.Len(t, store.Cluster.Fingerprint(), 64)
	require.NotEqual(t, store.Cluster.Fingerprint(), store.FrontProxy.Fingerprint())
}

func TestIssue(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		subject pki.Subject
		server  bool
	}{
		"client":         {pki.Subject{Name: "c"}, false},
		"server by name": {pki.Subject{Name: "s", DNSNames: []string{"a"}}, true},
		"server by IP":   {pki.Subject{Name: "s", Addresses: []net.IP{net.IPv6loopback}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := store.Issue(store.Etcd, "leaf", tt.subject)
			require.NoError(t, err)
			raw, err := os.ReadFile(pair.Cert)
			require.NoError(t, err)
			cert := decode(t, raw)
			require.False(t, cert.IsCA)
			require.Contains(t, cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
			require.Equal(t, tt.server, len(cert.ExtKeyUsage) == 2)
			require.Greater(t, time.Until(cert.NotAfter), 365*24*time.Hour)
			info, err := os.Stat(pair.Key)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		})
	}
}

func TestIssue_with_a_broken_key(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leaf.key"), []byte("x"), 0o600))
	_, err = store.Issue(store.Cluster, "leaf", pki.Subject{Name: "n"})
	require.ErrorContains(t, err, "leaf.key: not PEM")
}

func TestOpenKey_keeps_the_key(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "key")
	first, err := pki.OpenKey(path)
	require.NoError(t, err)
	again, err := pki.OpenKey(path)
	require.NoError(t, err)
	require.Equal(t, first.Public(), again.Public())
	_, err = pki.OpenKey(filepath.Dir(path))
	require.ErrorContains(t, err, "reading key")
}

func TestParseToken(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	token, err := pki.ParseToken(" lk1." + sum + ".secret\n")
	require.NoError(t, err, "files end with a newline")
	require.Equal(t, pki.Token{Fingerprint: sum, Secret: "secret"}, token)
	for name, text := range map[string]string{
		"empty":             "",
		"no fingerprint":    "lk1..hush",
		"short fingerprint": "lk1.abab.hush",
		"no hexadecimal":    "lk1." + strings.Repeat("xy", 32) + ".hush",
		"no secret":         "lk1." + sum + ".",
		"other version":     "lk2." + sum + ".hush",
		"too many parts":    "lk1." + sum + ".hush.more",
	} {
		_, err := pki.ParseToken(text)
		require.ErrorContains(t, err, "join token", name)
		require.NotContains(t, err.Error(), "hush", name)
	}
}

func TestToken_that_is_broken_admits_nobody(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token-agent"), nil, 0o600))
	_, err = store.Token(pki.RoleAgent)
	require.ErrorContains(t, err, filepath.Join(dir, "token-agent")+": no join token given")
	require.ErrorContains(t, store.Admits(pki.RoleAgent, ""), "token-agent")
}

func TestToken_is_private_and_random(t *testing.T) {
	dir := t.TempDir()
	store, err := pki.Open(dir)
	require.NoError(t, err)
	agent, err := store.Token(pki.RoleAgent)
	require.NoError(t, err)
	server, err := store.Token(pki.RoleServer)
	require.NoError(t, err)
	require.Len(t, agent.Secret, 40)
	require.NotEqual(t, agent.Secret, server.Secret)
	require.Equal(t, store.Cluster.Fingerprint(), agent.Fingerprint)
	info, err := os.Stat(filepath.Join(dir, "token-agent"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestVerify_refuses_what_is_no_certificate(t *testing.T) {
	for _, raw := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		_, err := pki.Token{}.Verify([]byte(raw))
		require.ErrorContains(t, err, "certificate", raw)
	}
}

func TestKubeconfig(t *testing.T) {
	store, err := pki.Open(t.TempDir())
	require.NoError(t, err)
	pair, err := store.Issue(store.Cluster, "admin", pki.Subject{Name: "admin"})
	require.NoError(t, err)
	raw, err := pki.Kubeconfig{Server: "https://127.0.0.1:1", CA: store.Cluster.CertPEM(), User: "admin", Pair: pair}.Encode()
	require.NoError(t, err)
	cfg, err := clientcmd.RESTConfigFromKubeConfig(raw)
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:1", cfg.Host)
	require.Equal(t, store.Cluster.CertPEM(), cfg.CAData)
	require.NotEmpty(t, cfg.KeyData)

	missing := pki.Kubeconfig{User: "admin", Pair: pki.Pair{Cert: pair.Cert, Key: "/nowhere"}}
	require.ErrorContains(t, missing.Write(filepath.Join(t.TempDir(), "k")), "reading key of admin")
	missing.Pair.Cert = "/nowhere"
	require.ErrorContains(t, missing.Write(filepath.Join(t.TempDir(), "k")), "reading certificate of admin")
}

func decode(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	require.NotNil(t, block)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return cert
}
