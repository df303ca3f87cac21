package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// ClockSkew is how far a verifying client's clock may be behind ours.
const ClockSkew = time.Hour

// Authority makes an authority that signed itself, and its key, in PEM.
func Authority(name string, now, end time.Time) (cert, key []byte, err error) {
	return issue(authority(name, now, end), nil)
}

func authority(name string, now, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, NotBefore: now.Add(-ClockSkew), NotAfter: end,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
}

// Serving creates a certificate for DNS names and addresses, signed by an authority, and its key,
// in PEM. At least one name is required.
func Serving(names []string, by *tls.Certificate, now, end time.Time) (cert, key []byte, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, NotBefore: now.Add(-2 * ClockSkew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	return issue(template, by)
}

// Cross signs an authority's name and key by another authority, so that a client that trusts the
// other trusts this one, too, while the other is valid.
func Cross(of, by *tls.Certificate) ([]byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := authority("", of.Leaf.NotBefore.Add(ClockSkew), by.Leaf.NotAfter)
	template.RawSubject, template.SubjectKeyId, template.SerialNumber = of.Leaf.RawSubject, of.Leaf.SubjectKeyId, serial
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, of.Leaf.PublicKey, by.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("signing an authority: %w", err)
	}
	return encode(der), nil
}

// issue creates a key and its certificate, signed by an authority or, without one, self-signed.
func issue(template *x509.Certificate, by *tls.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	if template.SerialNumber, err = serialNumber(); err != nil {
		return nil, nil, err
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return encode(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

func serialNumber() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return serial, nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Valid returns the certificates of a bundle that have not expired, each in PEM. Blocks that are
// not certificates are left out.
func Valid(bundle []byte, now time.Time) [][]byte {
	var out [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(cert.NotAfter) {
			out = append(out, encode(block.Bytes))
		}
	}
	return out
}
