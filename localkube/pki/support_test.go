package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/pki"
)

// in puts a directory's path into a text that calls it DIR.
func in(dir, text string) string { return strings.ReplaceAll(text, "DIR", dir) }

// overwrite copies a file from one directory over that of another.
func overwrite(t *testing.T, to, from, name string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(from, name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, name), raw, 0o600))
}

// verify expects that a certificate and its key are good for a client of an authority.
func verify(t *testing.T, by *pki.Authority, pair pki.Pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	_, err = loaded.Leaf.Verify(x509.VerifyOptions{Roots: by.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	return loaded.Leaf
}
