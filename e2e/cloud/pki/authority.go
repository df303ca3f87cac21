package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// Authority is a certificate authority of one local cloud.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Open makes an authority and writes its certificate to ca.pem in dir, for
// everybody to trust; its key is kept nowhere. An empty dir gets no file.
func Open(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating authority key: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "drover local cloud CA"}, key)
	if err != nil {
		return nil, fmt.Errorf("signing authority certificate: %w", err)
	}
	a := &Authority{cert: ca, key: key}
	if dir == "" {
		return a, nil
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM(), 0o644); err != nil { //nolint:gosec // everybody may read what everybody shall trust
		return nil, fmt.Errorf("writing authority certificate: %w", err)
	}
	return a, nil
}

// PEM returns the authority's certificate, PEM encoded.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.cert.Raw})
}

// Pool returns a pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Serving signs a serving certificate for hosts, which may be names or addresses.
func (a *Authority) Serving(hosts ...string) (tls.Certificate, error) {
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		return tls.Certificate{}, errors.New("signing serving certificate: a host has no name")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating serving key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "local cloud"},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing serving certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}, nil
}
