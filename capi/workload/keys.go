package workload

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// What a user's key or certificate makes our process compute. A signature with a key of eight primes and 16,384 bits takes ten seconds, which no
// deadline ends, and so does only reading it.
const (
	// maxKeyBits bounds RSA keys that we sign with, maxKeySize their encoding, maxAuthorityBits RSA keys that we check signatures with.
	maxKeyBits, maxKeySize, maxAuthorityBits = 4096, 3 << 10, 8192
	// maxBlocks bounds what stands in a key's field (an EC key has its parameters beside it), maxCertificates certificates in one field.
	maxBlocks, maxCertificates = 4, 50
)

// CheckKey refuses a private key in PEM that costs more than the usual ones. What is no key is for who uses it to refuse.
func CheckKey(content []byte) error {
	const advice = "use ECDSA, or RSA of at most 4096 bits with two primes"
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxBlocks {
			return errors.New("has more than 4 blocks of PEM: keep the key that is needed")
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
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

// CheckCertificates refuses certificates in PEM that cost more than the usual ones to check others with.
func CheckCertificates(content []byte) error {
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
