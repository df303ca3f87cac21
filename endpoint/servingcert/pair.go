package servingcert

import (
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
	bundle, caKey := old[caCertKey], old[caKeyKey]
	authority, err := tls.X509KeyPair(bundle, caKey)
	if _, ours := authority.PrivateKey.(*ecdsa.PrivateKey); err != nil || !ours || !authority.Leaf.IsCA || now.After(authority.Leaf.NotAfter.Add(-authorityRenew)) {
		var made []byte
		made, caKey, err = issue(&x509.Certificate{
			Subject: pkix.Name{CommonName: "drover webhooks"}, IsCA: true, BasicConstraintsValid: true,
			NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}, nil)
		if err != nil {
			return nil, err
		}
		if authority, err = tls.X509KeyPair(made, caKey); err != nil {
			return nil, fmt.Errorf("reading back the authority: %w", err)
		}
		bundle = append(made, stillValid(bundle, now)...)
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
	cert, key, err := issue(template, &authority)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certKey: cert, keyKey: key, caCertKey: bundle, caKeyKey: caKey}, nil
}

// issue makes a key and its certificate, signed by the authority or, without one, by itself.
func issue(template *x509.Certificate, by *tls.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	parent, signer := template, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
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
