package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	authorityYears = 10
	leafYears      = 1
	year           = 365 * 24 * time.Hour
	// backdate is for clocks that are behind ours.
	backdate = 5 * time.Minute
)

// authority signs certificates.
type authority struct {
	// chain is its own certificate and, of one that another has signed, those above it.
	chain []*x509.Certificate
	key   crypto.Signer
}

// openAuthority reads PATH.crt and PATH.key, or makes them.
func openAuthority(path, name string) (*authority, error) {
	certificate, err := os.ReadFile(path + ".crt")
	if errors.Is(err, fs.ErrNotExist) {
		return makeAuthority(path, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	chain, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("reading %s.crt: %w", path, err)
	}
	read, err := keyutil.PrivateKeyFromFile(path + ".key")
	if err != nil {
		return nil, fmt.Errorf("reading the key of the authority %s: %w", name, err)
	}
	key, ok := read.(crypto.Signer)
	public, known := chain[0].PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	if !ok || !known || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("%s.key is not the key of %s.crt", path, filepath.Base(path))
	}
	return &authority{chain, key}, nil
}

func makeAuthority(path, name string) (*authority, error) {
	key, err := newKey(path + ".key")
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	made, err := sign(template, template, key.Public(), key, authorityYears)
	if err != nil {
		return nil, err
	}
	content, err := cert.EncodeCertificates(made)
	if err != nil {
		return nil, err
	}
	return &authority{[]*x509.Certificate{made}, key}, write(content, 0o644, path+".crt")
}

// leaf says what a certificate is for.
type leaf struct {
	name   string
	groups []string
	// hosts are names and addresses by which a server is reached; who has none is a client.
	hosts []string
	// isMember: members of etcd are servers and clients of each other.
	isMember bool
}

// issue makes a certificate with a key of its own, PATH.crt and PATH.key.
func (a *authority) issue(path string, l leaf) error {
	key, err := newKey(path + ".key")
	if err != nil {
		return err
	}
	content, err := a.certify(key.Public(), l)
	if err != nil {
		return err
	}
	return write(content, 0o644, path+".crt")
}

// certify signs a key that may be somebody else's; PEM, with the chain of an authority that another has signed.
func (a *authority) certify(public crypto.PublicKey, l leaf) ([]byte, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: l.name, Organization: l.groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(l.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if l.isMember {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	for _, name := range l.hosts {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	made, err := sign(template, a.chain[0], public, a.key, leafYears)
	if err != nil {
		return nil, err
	}
	// Who trusts the root alone needs what is between.
	all := []*x509.Certificate{made}
	if len(a.chain) > 1 {
		all = append(all, a.chain...)
	}
	return cert.EncodeCertificates(all...)
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer, years time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("numbering a certificate: %w", err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-backdate), time.Now().Add(years*year)
	if parent != template && parent.NotAfter.Before(template.NotAfter) {
		template.NotAfter = parent.NotAfter
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(raw)
}

func newKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	content, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return key, write(content, 0o600, path)
}

// readOrMakeKey keeps what is there.
func readOrMakeKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := newKey(path)
	return err
}

// write puts a file in its place as a whole.
func write(content []byte, mode os.FileMode, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the folder of %s: %w", path, err)
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(fresh, path)
}
