package servingcert

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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

func TestLoad_replicasShareOne(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	first := load(t, c, now)
	second := load(t, c, now)
	require.NoError(t, verify(t, first, second.CABundle(), now))
	require.NoError(t, verify(t, second, first.CABundle(), now))
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(t.Context(), key, secret))
	require.Equal(t, corev1.SecretTypeTLS, secret.Type)
}

func TestLoad_renewsTheCertificateAndKeepsTheAuthority(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	old := load(t, c, now)
	later := now.Add(certLife - certRenew + time.Minute)
	renewed := load(t, c, later)
	require.Equal(t, old.CABundle(), renewed.CABundle())
	require.NotEqual(t, old.current.Load().cert.Certificate, renewed.current.Load().cert.Certificate)
	require.NoError(t, verify(t, renewed, old.CABundle(), now.Add(certLife+time.Hour)))
}

func TestLoad_renewsTheAuthorityAndKeepsTheOldInTheBundle(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	old := load(t, c, now)
	later := now.Add(authorityLife - authorityRenew + time.Hour)
	renewed := load(t, c, later)
	require.NoError(t, verify(t, renewed, renewed.CABundle(), later))
	require.Error(t, verify(t, renewed, old.CABundle(), later))
	require.Contains(t, string(renewed.CABundle()), string(old.CABundle()))
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

func TestStart_seesWhatAnotherReplicaDid(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	changed := make(chan []byte, 1)
	s, err := Load(t.Context(), Options{Client: c, Secret: key, Names: []string{name}, Changed: func(_ context.Context, bundle []byte, _ string) error {
		changed <- bundle
		return nil
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	data, err := renew(nil, []string{name}, now)
	require.NoError(t, err)
	secret := &corev1.Secret{}
	require.NoError(t, c.Get(ctx, key, secret))
	secret.Data = data
	require.NoError(t, c.Update(ctx, secret))
	require.Equal(t, data[caCertKey], <-changed)
	require.Equal(t, data[caCertKey], s.CABundle())
	cancel()
	require.NoError(t, <-done)
}
