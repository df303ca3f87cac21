// Package keys bounds the private keys and certificates that tenants provide, before another package
// reads them. It is pure. The planner, the control plane's authorities, kubeconfigs and the embedded
// Cluster API use it.
package keys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// These are the bounds of the work that a tenant's key or certificate costs. A signature with a key
// of eight primes and 16,384 bits takes ten seconds, which no deadline ends. Reading such a key
// takes as long, also from a block of PEM that has another type.
const (
	// maxKeyBits bounds RSA keys that we sign with, maxKeySize their encoding, maxAuthorityBits RSA
	// keys that we check signatures with.
	maxKeyBits, maxKeySize, maxAuthorityBits = 4096, 3 << 10, 8192
	// maxBlocks bounds the blocks in a key's field, because an EC key has its parameters beside it.
	// maxCertificates bounds the certificates in one field.
	maxBlocks, maxCertificates = 4, 50
	// maxKeyText and maxCertificatesText bound a whole field, in bytes, before it is read as PEM.
	maxKeyText, maxCertificatesText = 16 << 10, 256 << 10
)

// CheckKey rejects a private key in PEM that is too large to read or to sign with. It accepts text
// without a key; the caller that needs a key rejects that.
func CheckKey(content []byte) error {
	const advice = "use ECDSA, or RSA of at most 4096 bits with two primes"
	if len(content) > maxKeyText {
		return fmt.Errorf("has %d bytes, more than the %d of any usual key: %s", len(content), maxKeyText, advice)
	}
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxBlocks {
			return errors.New("has more than 4 blocks of PEM: keep the key that is needed")
		}
		if len(block.Bytes) > maxKeySize {
			return errors.New("is too large a key: " + advice)
		}
		if key := rsaKey(block.Bytes); key != nil && (key.N.BitLen() > maxKeyBits || len(key.Primes) != 2) {
			return errors.New("is too large a key: " + advice)
		}
	}
	return nil
}

func rsaKey(der []byte) *rsa.PrivateKey {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil
	}
	found, _ := key.(*rsa.PrivateKey)
	return found
}

// CheckCertificates rejects certificates in PEM that are too large to read or to verify others
// with. It accepts text without a certificate.
func CheckCertificates(content []byte) error {
	if len(content) > maxCertificatesText {
		return fmt.Errorf("has %d bytes of certificates (limit %d): keep the ones that are needed", len(content), maxCertificatesText)
	}
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxCertificates {
			return errors.New("has more than 50 certificates: keep the ones that are needed")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		switch key := cert.PublicKey.(type) {
		case *rsa.PublicKey:
			if key.N.BitLen() > maxAuthorityBits {
				return errors.New("has a certificate with too large a key: use ECDSA, or RSA of at most 8192 bits")
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
		default:
			return errors.New("has a certificate with another key than RSA, ECDSA or Ed25519")
		}
	}
	return nil
}
