package pki_test

import (
	"crypto/tls"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/pki"
)

// kept returns a directory with an authority in it.
func kept(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := pki.Open(dir)
	require.NoError(t, err)
	return dir
}

func TestOpenNeverReplacesATrustedAuthority(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"key lost": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "ca-key.pem")))
		}, "ca-key.pem: no such file or directory"},
		"key of another authority": {func(t *testing.T, dir string) {
			t.Helper()
			other, err := os.ReadFile(filepath.Join(kept(t), "ca-key.pem"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ca-key.pem"), other, 0o600))
		}, "do not belong together; remove both for a new authority"},
		"key is a certificate": {func(t *testing.T, dir string) {
			t.Helper()
			cert, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ca-key.pem"), cert, 0o600))
		}, "parsing authority key: "},
		"certificate is none": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("nonsense"), 0o600))
		}, "ca.pem holds no PEM block"},
		"key cut short": {func(t *testing.T, dir string) {
			t.Helper()
			require.NoError(t, os.Truncate(filepath.Join(dir, "ca-key.pem"), 40))
		}, "ca-key.pem holds no PEM block"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := kept(t)
			test.damage(t, dir)
			before, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
			require.NoError(t, err)
			authority, err := pki.Open(dir)
			require.ErrorContains(t, err, test.want)
			require.Nil(t, authority)
			after, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
		})
	}
}

func TestOpenMakesAnewWhatWasNeverTrusted(t *testing.T) {
	dir := kept(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.pem")))
	_, err := pki.Open(dir)
	require.NoError(t, err, "a crash between key and certificate")
	_, err = pki.Open(dir)
	require.NoError(t, err, "key and certificate belong together again")
}

func TestOpenTellsOfAMissingDirectory(t *testing.T) {
	_, err := pki.Open(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "writing authority key")
}

func TestClientsTrustAcrossARestart(t *testing.T) {
	dir := kept(t)
	before, err := pki.Open(dir)
	require.NoError(t, err)
	after, err := pki.Open(dir)
	require.NoError(t, err)
	serving, err := after.Serving("127.0.0.1")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serving}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr).String()
	connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: before.Pool(), MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	require.NoError(t, connection.Close())
}
