package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/pki"
)

func leaf(t *testing.T, certificate tls.Certificate) *x509.Certificate {
	t.Helper()
	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	require.NoError(t, err)
	return parsed
}

func TestServingCertificateIsForItsHostsAlone(t *testing.T) {
	authority, err := pki.Open("")
	require.NoError(t, err)
	certificate, err := authority.Serving("api.test", "127.0.0.1", "::1", "*.wild.test")
	require.NoError(t, err)
	parsed := leaf(t, certificate)
	for host, good := range map[string]bool{
		"api.test": true, "API.TEST": true, "127.0.0.1": true, "::1": true, "a.wild.test": true,
		"wild.test": false, "a.b.wild.test": false, "127.0.0.2": false, "xapi.test": false, "": false,
	} {
		_, err := parsed.Verify(x509.VerifyOptions{Roots: authority.Pool(), DNSName: host})
		if host == "" {
			require.NoError(t, err, "without a name it is only about the authority")
			continue
		}
		require.Equal(t, good, err == nil, "%s: %v", host, err)
	}
	require.False(t, parsed.IsCA)
	_, err = parsed.Verify(x509.VerifyOptions{Roots: authority.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.Error(t, err, "it serves and does not log in")
}

func TestServingNeedsHosts(t *testing.T) {
	authority, err := pki.Open("")
	require.NoError(t, err)
	for _, hosts := range [][]string{nil, {""}, {"api.test", ""}} {
		_, err = authority.Serving(hosts...)
		require.EqualError(t, err, "signing serving certificate: a host has no name")
	}
	_, err = authority.Serving("ümlaut.test")
	require.ErrorContains(t, err, "signing serving certificate: ")
}

// Another authority of the same name, of another cloud on the machine, is trusted by nobody here.
func TestAuthoritiesDoNotTrustEachOther(t *testing.T) {
	first, err := pki.Open("")
	require.NoError(t, err)
	second, err := pki.Open("")
	require.NoError(t, err)
	require.NotEqual(t, first.PEM(), second.PEM())
	certificate, err := second.Serving("127.0.0.1")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is the point
	server.StartTLS()
	defer server.Close()
	for authority, good := range map[*pki.Authority]bool{first: false, second: true} {
		connection, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", server.Listener.Addr().String(),
			&tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12})
		require.Equal(t, good, err == nil, "%v", err)
		if err == nil {
			require.NoError(t, connection.Close())
		}
	}
}

func TestSerialNumbersDiffer(t *testing.T) {
	authority, err := pki.Open("")
	require.NoError(t, err)
	seen := map[string]bool{}
	for range 20 {
		certificate, err := authority.Serving("api.test")
		require.NoError(t, err)
		serial := leaf(t, certificate).SerialNumber.String()
		require.False(t, seen[serial])
		seen[serial] = true
	}
}

func TestFilesHaveTheirModes(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		dir := t.TempDir()
		old := syscall.Umask(umask)
		_, err := pki.Open(dir)
		syscall.Umask(old)
		require.NoError(t, err)
		for name, want := range map[string]fs.FileMode{"ca.pem": 0o644, "ca-key.pem": 0o600} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, want, info.Mode().Perm(), "%s, umask %o", name, umask)
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2, "nothing half-made is left")
	}
}

// What a crash left half-written is not in the way, and a key that anyone could read is replaced by one that none can.
func TestACrashWhileItIsMadeIsNoHarm(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.pem.new", "ca-key.pem.new", "ca-key.pem"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("-----BEGIN CERT"), 0o600))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o666))
	}
	first, err := pki.Open(dir)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, "ca-key.pem"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	again, err := pki.Open(dir)
	require.NoError(t, err)
	require.Equal(t, first.PEM(), again.PEM())

	blocked := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(blocked, "ca.pem.new"), 0o700))
	_, err = pki.Open(blocked)
	require.ErrorContains(t, err, "writing authority certificate: open ")
}
