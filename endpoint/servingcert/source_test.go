package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/testkit"
)

var (
	key  = client.ObjectKey{Namespace: "drover-system", Name: "drover-serving-cert"}
	name = "drover-webhooks.drover-system.svc"
)

func load(t *testing.T, c client.WithWatch, now time.Time) *Source {
	t.Helper()
	s, err := Load(t.Context(), Options{Client: c, Secret: key, Names: []string{name}, Now: func() time.Time { return now }})
	require.NoError(t, err)
	return s
}

// verify does what the API server does with the certificate.
func verify(t *testing.T, s *Source, bundle []byte, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	cert, err := s.GetCertificate(nil)
	require.NoError(t, err)
	_, err = cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now})
	return err
}

func TestLoad_mendsWhatCannotBeUsed(t *testing.T) {
	now := time.Now()
	for what, spoil := range map[string]func(data map[string][]byte){
		"no key":       func(data map[string][]byte) { delete(data, keyKey) },
		"not PEM":      func(data map[string][]byte) { data[certKey] = []byte("x") },
		"no authority": func(data map[string][]byte) { delete(data, caCertKey) },
		"nothing":      func(data map[string][]byte) { clear(data) },
	} {
		t.Run(what, func(t *testing.T) {
			c := fake.NewClientBuilder().Build()
			load(t, c, now)
			secret := &corev1.Secret{}
			require.NoError(t, c.Get(t.Context(), key, secret))
			spoil(secret.Data)
			require.NoError(t, c.Update(t.Context(), secret))
			s := load(t, c, now)
			require.NoError(t, verify(t, s, s.CABundle(), now))
		})
	}
}

func TestLoad_otherNameGetsAnotherCertificate(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	old := load(t, c, now)
	s, err := Load(t.Context(), Options{Client: c, Secret: key, Names: []string{"other.svc"}})
	require.NoError(t, err)
	require.Equal(t, old.CABundle(), s.CABundle())
	require.Equal(t, []string{"other.svc"}, s.current.Load().cert.Leaf.DNSNames)
}

func TestMain(m *testing.M) { testkit.Main(m) }

// serve shows the source's certificate on loopback.
func serve(t *testing.T, s *Source) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.GetCertificate, MinVersion: tls.VersionTLS13})
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// call does what the API server does: it calls address by a name and trusts a bundle.
func call(t *testing.T, address, name string, bundle []byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// The names under which a webhook is configured: a Service's, a host's, or the address of a manager outside the cluster.
func TestServing_underEveryKindOfName(t *testing.T) {
	for what, names := range map[string][]string{
		"Service":           {"drover-webhooks.drover-system.svc", "drover-webhooks.drover-system.svc.cluster.local"},
		"host":              {"manager.example.com"},
		"IPv4":              {"127.0.0.1"},
		"IPv6":              {"2001:db8::1"},
		"names and numbers": {"manager.example.com", "198.18.0.9"},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := Load(t.Context(), Options{Client: fake.NewClientBuilder().Build(), Secret: key, Names: names})
			require.NoError(t, err)
			address := serve(t, s)
			for _, name := range names {
				require.NoError(t, call(t, address, name, s.CABundle()), name)
			}
			require.ErrorContains(t, call(t, address, "other.example.com", s.CABundle()), "certificate is ")
			again, err := Load(t.Context(), Options{Client: s.opts.Client, Secret: key, Names: names})
			require.NoError(t, err)
			require.Equal(t, s.current.Load().cert.Certificate, again.current.Load().cert.Certificate, "a restart makes no new one")

			old := s.CABundle() // connections made after a renewal see the new certificate, without a restart of the server
			require.NoError(t, s.opts.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
			require.NoError(t, s.refresh(t.Context()))
			require.ErrorContains(t, call(t, address, names[0], old), "unknown authority")
			require.NoError(t, call(t, address, names[0], s.CABundle()))
		})
	}
}

// The certificate of a webhook can do nothing else: it is no authority, signs no clients and lives no longer than said.
func TestCertificate_isGoodForOneThing(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	leaf := load(t, fake.NewClientBuilder().Build(), now).current.Load().cert.Leaf
	require.False(t, leaf.IsCA)
	require.Equal(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, leaf.ExtKeyUsage)
	require.Equal(t, x509.KeyUsageDigitalSignature, leaf.KeyUsage)
	require.Equal(t, []string{name}, leaf.DNSNames)
	require.Empty(t, leaf.IPAddresses)
	require.Equal(t, now.Add(-2*time.Hour), leaf.NotBefore, "the API server's clock may be behind")
	require.Equal(t, now.Add(90*24*time.Hour), leaf.NotAfter)
	require.Equal(t, x509.ECDSAWithSHA256, leaf.SignatureAlgorithm)
}

// Replicas that start at once against a real API server end up with one certificate.
func TestLoad_atOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	c := testkit.Client(t, scheme)
	secret := client.ObjectKey{Namespace: testkit.Namespace(t), Name: "drover-serving-cert"}
	const replicas = 8
	sources := make([]*Source, replicas)
	var all sync.WaitGroup
	for i := range sources {
		all.Go(func() {
			var err error
			if sources[i], err = Load(t.Context(), Options{Client: c, Secret: secret, Names: []string{name}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
	for _, s := range sources {
		require.Equal(t, sources[0].current.Load().cert.Certificate, s.current.Load().cert.Certificate)
	}
	stored := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), secret, stored))
	require.Equal(t, corev1.SecretTypeTLS, stored.Type)
	require.Len(t, stored.Data, 4)
}
