package pki

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
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	certFile = "ca.pem"
	keyFile  = "ca-key.pem"
	// publicMode lets everybody read what everybody shall trust.
	publicMode = 0o644
	lifetime   = 10 * 365 * 24 * time.Hour
)

// Authority is a certificate authority of one local cloud.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// Open loads the authority kept in dir, or makes one and keeps it there. An
// empty dir makes an authority that lives in memory only.
func Open(dir string) (*Authority, error) {
	if dir == "" {
		return create()
	}
	// The certificate is written last: without it nobody trusts the authority
	// yet, with it one that lacks its key must not be replaced unnoticed.
	if _, err := os.Stat(filepath.Join(dir, certFile)); !errors.Is(err, fs.ErrNotExist) {
		return load(dir)
	}
	authority, err := create()
	if err != nil {
		return nil, err
	}
	return authority, authority.save(dir)
}

// PEM returns the authority's certificate, PEM encoded.
func (a *Authority) PEM() []byte { return a.pem }

// Pool returns a pool that trusts only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Serving signs a serving certificate for hosts, which may be names or addresses.
func (a *Authority) Serving(hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generating serving key: %w", err)
	}
	template, err := newTemplate("local cloud")
	if err != nil {
		return tls.Certificate{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if len(hosts) == 0 || slices.Contains(hosts, "") {
		return tls.Certificate{}, errors.New("signing serving certificate: a host has no name")
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

func create() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating authority key: %w", err)
	}
	template, err := newTemplate("drover local cloud CA")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing authority certificate: %w", err)
	}
	return assemble(der, key)
}

func newTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choosing serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func assemble(der []byte, key *ecdsa.PrivateKey) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parsing authority certificate: %w", err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &Authority{cert: cert, key: key, pem: encoded}, nil
}

func load(dir string) (*Authority, error) {
	certDER, err := readPEM(filepath.Join(dir, certFile))
	if err != nil {
		return nil, err
	}
	keyDER, err := readPEM(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("parsing authority key: %w", err)
	}
	authority, err := assemble(certDER, key)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(authority.cert.PublicKey) {
		return nil, fmt.Errorf("loading authority: %s and %s in %s do not belong together; remove both for a new authority", certFile, keyFile, dir)
	}
	return authority, nil
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading authority: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("reading authority: %s holds no PEM block", path)
	}
	return block.Bytes, nil
}

func (a *Authority) save(dir string) error {
	keyDER, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		return fmt.Errorf("encoding authority key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	if err := replace(filepath.Join(dir, keyFile), keyPEM, 0o600); err != nil {
		return fmt.Errorf("writing authority key: %w", err)
	}
	if err := replace(filepath.Join(dir, certFile), a.pem, publicMode); err != nil {
		return fmt.Errorf("writing authority certificate: %w", err)
	}
	return nil
}

// replace writes a file with the mode it shall have, whatever was there and whatever our umask: half a
// certificate would have to be removed by hand.
func replace(path string, content []byte, mode os.FileMode) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(fresh, mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
