package servingcert

import (
	"bytes"
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
	"time"
)

// Keys of the Secret beside tls.crt and tls.key.
const (
	caCertKey = "ca.crt"
	caKeyKey  = "ca.key"
	certKey   = "tls.crt"
	keyKey    = "tls.key"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// authorityRenew is left of an authority's life when a new one is made; the old one stays in the bundle.
	authorityRenew = 365 * 24 * time.Hour
	certLife       = 90 * 24 * time.Hour
	certRenew      = 30 * 24 * time.Hour
	// clockSkew is how far the API server's clock may be behind ours.
	clockSkew = time.Hour
)

// pair is the content of the Secret, read.
type pair struct {
	cert   tls.Certificate
	bundle []byte
	// secret is what the paths are made from.
	secret []byte
	// renewAt is when a new one is due.
	renewAt time.Time
}

type authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
	keyPEM  []byte
}

// parse reads the Secret's data; it fails on anything that a server could not use for names.
func parse(data map[string][]byte, names []string) (*pair, error) {
	cert, err := tls.X509KeyPair(data[certKey], data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the serving certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[caCertKey]) {
		return nil, errors.New("the authority's certificate is missing")
	}
	if len(data[caKeyKey]) == 0 {
		return nil, errors.New("the authority's key is missing, of which the webhooks' paths are made")
	}
	for _, name := range names {
		// The time is judged by renewAt; here an expired certificate is still one of ours.
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: cert.Leaf.NotBefore.Add(clockSkew)}); err != nil {
			return nil, fmt.Errorf("checking the serving certificate for %s: %w", name, err)
		}
	}
	return &pair{cert: cert, bundle: data[caCertKey], secret: data[caKeyKey], renewAt: cert.Leaf.NotAfter.Add(-certRenew)}, nil
}

// renew makes the Secret's data anew; an authority that still has time is kept, so that its bundle stays good.
func renew(old map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	ca, bundle, err := usableAuthority(old, now)
	if err != nil {
		if ca, err = newAuthority(now); err != nil {
			return nil, err
		}
		bundle = append(bytes.Clone(ca.certPEM), stillValid(old[caCertKey], now)...)
	}
	certPEM, keyPEM, err := ca.sign(names, now)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certKey: certPEM, keyKey: keyPEM, caCertKey: bundle, caKeyKey: ca.keyPEM}, nil
}

func usableAuthority(old map[string][]byte, now time.Time) (*authority, []byte, error) {
	found, err := tls.X509KeyPair(old[caCertKey], old[caKeyKey])
	if err != nil {
		return nil, nil, fmt.Errorf("reading the authority: %w", err)
	}
	key, ok := found.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !found.Leaf.IsCA || now.After(found.Leaf.NotAfter.Add(-authorityRenew)) {
		return nil, nil, errors.New("the authority is due for renewal")
	}
	return &authority{cert: found.Leaf, key: key, keyPEM: old[caKeyKey]}, old[caCertKey], nil
}

// stillValid keeps the authorities whose certificates other replicas may still show.
func stillValid(bundle []byte, now time.Time) []byte {
	var out []byte
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return out
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(cert.NotAfter) {
			out = append(out, pem.EncodeToMemory(block)...)
		}
		bundle = rest
	}
}

func newAuthority(now time.Time) (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "drover webhooks"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, certPEM, err := certify(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

func (a *authority) sign(names []string, now time.Time) (certPEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: names[0]},
		NotBefore: now.Add(-2 * clockSkew), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	_, certPEM, err = certify(template, a.cert, key, a.key)
	return certPEM, keyPEM, err
}

func certify(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, []byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("reading back a certificate: %w", err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
