package pki_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/pki"
)

func TestServingCertificateIsTrustedForItsHosts(t *testing.T) {
	authority, err := pki.Open("")
	require.NoError(t, err)
	serving, err := authority.Serving("api.example.test", "198.18.0.1")
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(serving.Certificate[0])
	require.NoError(t, err)

	for _, host := range []string{"api.example.test", "198.18.0.1"} {
		_, err = leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: authority.Pool()})
		require.NoError(t, err, host)
	}
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: "other.example.test", Roots: authority.Pool()})
	require.Error(t, err)
}

func TestOpenKeepsTheAuthorityAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	first, err := pki.Open(dir)
	require.NoError(t, err)
	second, err := pki.Open(dir)
	require.NoError(t, err)
	require.Equal(t, string(first.PEM()), string(second.PEM()))

	info, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestOpenRefusesADamagedAuthority(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("nonsense"), 0o600))
	_, err := pki.Open(dir)
	require.ErrorContains(t, err, "no PEM block")
}
