package identity

import (
	"crypto"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

func issue(t *testing.T, dir string) (Files, *Signer) {
	t.Helper()
	files, signer, err := Server{DataDir: dir, NodeName: "web-1", Address: "198.18.0.2", Names: []string{"api.example.org", "198.18.192.1"}, URL: "https://127.0.0.1:6443"}.Issue()
	require.NoError(t, err)
	return files, signer
}

func pool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	p, err := cert.NewPool(path)
	require.NoError(t, err)
	return p
}

// requireTrusted verifies the first certificate of a PEM text with the others.
func requireTrusted(t *testing.T, content []byte, roots *x509.CertPool, host string, usage x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	chain, err := cert.ParseCertsPEM(content)
	require.NoError(t, err)
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
	require.NoError(t, err)
	return chain[0]
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func TestIssue(t *testing.T) {
	dir := t.TempDir()
	files, _ := issue(t, dir)
	tls := filepath.Join(dir, "server", "tls")
	for _, host := range []string{"127.0.0.1", "198.18.0.2", "web-1", "kubernetes.default.svc", "api.example.org", "198.18.192.1"} {
		requireTrusted(t, read(t, files.APIServer.Certificate), pool(t, filepath.Join(tls, "server-ca.crt")), host, x509.ExtKeyUsageServerAuth)
	}
	clients := pool(t, filepath.Join(tls, "client-ca.crt"))
	prober := requireTrusted(t, read(t, filepath.Join(tls, "client-kube-apiserver.crt")), clients, "", x509.ExtKeyUsageClientAuth)
	require.Equal(t, []string{"system:masters"}, prober.Subject.Organization)
	for usage, path := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: files.EtcdServer.Certificate, x509.ExtKeyUsageClientAuth: files.EtcdClient.Certificate} {
		requireTrusted(t, read(t, path), pool(t, filepath.Join(tls, "etcd", "server-ca.crt")), "", usage)
	}
	requireTrusted(t, read(t, files.EtcdPeer.Certificate), pool(t, filepath.Join(tls, "etcd", "peer-ca.crt")), "198.18.0.2", x509.ExtKeyUsageClientAuth)
	config, err := clientcmd.BuildConfigFromFlags("", files.Kubeconfigs["admin"])
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:6443", config.Host)
	requireTrusted(t, config.CertData, clients, "", x509.ExtKeyUsageClientAuth)
	info, err := os.Stat(files.Kubeconfigs["admin"])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	t.Run("again: authorities and the key of tokens stay, certificates are new", func(t *testing.T) {
		before := map[string]string{}
		for _, name := range []string{"server-ca.crt", "client-ca.key", "etcd/peer-ca.crt", "service.key"} {
			before[name] = string(read(t, filepath.Join(tls, name)))
		}
		leaf := string(read(t, files.APIServer.Certificate))
		issue(t, dir)
		for name, content := range before {
			require.Equal(t, content, string(read(t, filepath.Join(tls, name))), name)
		}
		require.NotEqual(t, leaf, string(read(t, files.APIServer.Certificate)))
	})
	t.Run("a key of another authority", func(t *testing.T) {
		require.NoError(t, os.WriteFile(filepath.Join(tls, "server-ca.key"), read(t, filepath.Join(tls, "client-ca.key")), 0o600))
		_, _, err := Server{DataDir: dir, NodeName: "web-1", Address: "198.18.0.2"}.Issue()
		require.ErrorContains(t, err, "server-ca.crt and its key: tls: private key does not match public key")
	})
}

// An authority that another has signed: whoever trusts the root trusts what it signs.
func TestIssue_by_an_authority_below_another(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server", "tls", "server-ca")
	root, rootKey, err := pkiutil.NewCertificateAuthority(config(cert.Config{CommonName: "root"}))
	require.NoError(t, err)
	below, belowKey, err := pkiutil.NewIntermediateCertificateAuthority(root, rootKey, config(cert.Config{CommonName: "below"}))
	require.NoError(t, err)
	content, err := encode(below, belowKey)
	require.NoError(t, err)
	content.Certificate = append(content.Certificate, pkiutil.EncodeCertPEM(root)...)
	require.NoError(t, content.write(path))
	files, signer := issue(t, dir)
	roots := x509.NewCertPool()
	roots.AddCert(root)
	requireTrusted(t, read(t, files.APIServer.Certificate), roots, "198.18.0.2", x509.ExtKeyUsageServerAuth)
	require.Equal(t, read(t, path+".crt"), signer.ServerCA())
}

func TestSign(t *testing.T) {
	files, signer := issue(t, t.TempDir())
	request := Request{Name: "web-2", Address: "198.18.0.3"}
	answer, err := signer.Sign(request)
	require.NoError(t, err)
	mine, err := answer.Take(t.TempDir(), "https://198.18.0.2:6443")
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", mine.Kubelet)
	require.NoError(t, err)
	require.Equal(t, "https://198.18.0.2:6443", config.Host)
	kubelet := requireTrusted(t, config.CertData, pool(t, files.ClientCA.Certificate), "", x509.ExtKeyUsageClientAuth)
	require.Equal(t, "system:node:web-2", kubelet.Subject.CommonName)
	require.Equal(t, []string{"system:nodes"}, kubelet.Subject.Organization)
	require.Less(t, time.Until(kubelet.NotAfter), 366*24*time.Hour)
	require.Greater(t, time.Until(kubelet.NotAfter), 364*24*time.Hour, "however old its authority is")
	key, err := keyutil.ParsePrivateKeyPEM(config.KeyData)
	require.NoError(t, err)
	require.Equal(t, kubelet.PublicKey, key.(crypto.Signer).Public())
	requireTrusted(t, read(t, mine.Serving.Certificate), pool(t, files.ServerCA), "198.18.0.3", x509.ExtKeyUsageServerAuth)

	for _, bad := range []Request{{Address: request.Address}, {Name: request.Name, Address: "web-2"}} {
		_, err := signer.Sign(bad)
		require.ErrorContains(t, err, "a node needs a name and an address")
	}
	_, err = Answer{}.Take(t.TempDir(), "https://198.18.0.2:6443")
	require.ErrorContains(t, err, "the server's answer has no")
	_, err = Answer{ServerCA: answer.ServerCA, ClientCA: answer.ClientCA}.Take(t.TempDir(), "https://198.18.0.2:6443")
	require.ErrorContains(t, err, "the server's answer has no")
}
