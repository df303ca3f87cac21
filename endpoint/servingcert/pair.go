package servingcert

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/endpoint/certificate"
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
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: cert.Leaf.NotBefore.Add(certificate.ClockSkew)}); err != nil {
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
		if made, caKey, err = certificate.Authority("drover webhooks", now, now.Add(authorityLife)); err != nil {
			return nil, err
		}
		if authority, err = tls.X509KeyPair(made, caKey); err != nil {
			return nil, fmt.Errorf("reading back the authority: %w", err)
		}
		// Other replicas may still show what an earlier authority signed.
		bundle = slices.Concat(append([][]byte{made}, certificate.Valid(bundle, now)...)...)
	}
	cert, key, err := certificate.Serving(names, &authority, now, now.Add(certLife))
	if err != nil {
		return nil, err
	}
	return map[string][]byte{certKey: cert, keyKey: key, caCertKey: bundle, caKeyKey: caKey}, nil
}
