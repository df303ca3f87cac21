package keys_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/keys"
)

// A block of another type is bounded like a key, because readers of keys try each block.
func TestCheckKey_foreignBlock(t *testing.T) {
	foreign := func(size int) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: make([]byte, size)})
	}
	require.ErrorContains(t, keys.CheckKey(foreign(450_000)), "bytes, more than the 16384 of any usual key")
	require.ErrorContains(t, keys.CheckKey(foreign(8_000)), "is too large a key")
	require.NoError(t, keys.CheckKey(foreign(100)), "the caller finds no key")
	require.ErrorContains(t, keys.CheckCertificates(foreign(450_000)), "bytes of certificates (limit 262144)")

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, keys.CheckKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// FuzzCheck: no input makes the checks panic.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("-----BEGIN X-----\nAAAA\n-----END X-----\n"))
	f.Fuzz(func(_ *testing.T, content []byte) {
		_ = keys.CheckKey(content)
		_ = keys.CheckCertificates(content)
	})
}
