package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-project/drover/endpoint/certificate"
)

// life is longer than any local cloud's.
const life = 10 * 365 * 24 * time.Hour

// Authority is a certificate authority of one local cloud.
type Authority struct {
	bundle []byte
	pair   tls.Certificate
}

// Open makes an authority and writes its certificate to ca.pem in dir, for
// everybody to trust; its key is kept nowhere. An empty dir gets no file.
func Open(dir string) (*Authority, error) {
	now := time.Now()
	bundle, key, err := certificate.Authority("drover local cloud CA", now, now.Add(life))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(bundle, key)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	if dir != "" {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), bundle, 0o644) //nolint:gosec // everybody may read what everybody shall trust
	}
	if err != nil {
		return nil, fmt.Errorf("writing authority certificate: %w", err)
	}
	return &Authority{bundle, pair}, nil
}

// PEM returns the authority's certificate, PEM encoded.
func (a *Authority) PEM() []byte { return a.bundle }

// Pool returns a pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.pair.Leaf)
	return pool
}

// Serving signs a serving certificate for hosts, which may be names or addresses.
func (a *Authority) Serving(hosts ...string) (tls.Certificate, error) {
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		return tls.Certificate{}, errors.New("signing serving certificate: a host has no name")
	}
	serving, key, err := certificate.Serving(hosts, &a.pair, time.Now(), a.pair.Leaf.NotAfter)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(append(serving, a.bundle...), key)
}
