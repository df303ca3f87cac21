package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/localkube/datadir"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 2 * 365 * 24 * time.Hour
	// backdate keeps certificates valid for peers whose clock is behind.
	backdate = time.Hour
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	path string
}

// Subject says whom a certificate is for and what it may be used for. Every
// certificate is good for clients; one with names or addresses also for servers.
type Subject struct {
	Name      string
	Groups    []string
	DNSNames  []string
	Addresses []net.IP
}

// openAuthority loads the authority kept in dir/name.{crt,key} or founds it.
func openAuthority(dir, name string) (*Authority, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path + ".crt"); errors.Is(err, fs.ErrNotExist) {
		key, err := openKey(path + ".key")
		if err != nil {
			return nil, err
		}
		raw, err := foundAuthority(name, key)
		if err == nil {
			err = datadir.WriteFile(path+".crt", raw)
		}
		if err != nil {
			return nil, fmt.Errorf("founding authority %s: %w", name, err)
		}
	}
	return readAuthority(dir, name)
}

// readAuthority loads an authority. It never mends one: a certificate with
// another key would look right and sign what nobody trusts.
func readAuthority(dir, name string) (*Authority, error) {
	path := filepath.Join(dir, name)
	raw, err := os.ReadFile(path + ".crt")
	if err != nil {
		return nil, fmt.Errorf("opening authority %s: %w", name, err)
	}
	cert, err := parseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("opening authority %s: %w", name, err)
	}
	// TLS would only say that some certificate is bad.
	switch now := time.Now(); {
	case now.Before(cert.NotBefore):
		return nil, fmt.Errorf("opening authority %s: it is valid from %s and this machine's clock says %s: set the clock", name, stamp(cert.NotBefore), stamp(now))
	case now.After(cert.NotAfter):
		return nil, fmt.Errorf("opening authority %s: it expired at %s and this machine's clock says %s: set the clock, or start a new cluster in a new data directory",
			name, stamp(cert.NotAfter), stamp(now))
	}
	key, err := readKey(path + ".key")
	if err != nil {
		return nil, fmt.Errorf("opening authority %s: %w", name, err)
	}
	if public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("opening authority %s: %s.crt and %[2]s.key do not belong together", name, path)
	}
	return &Authority{cert: cert, key: key, path: path}, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func foundAuthority(name string, key crypto.Signer) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "localkube-" + name},
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing authority: %w", err)
	}
	return encode("CERTIFICATE", der), nil
}

// CertFile is the file of the authority's certificate.
func (a *Authority) CertFile() string { return a.path + ".crt" }

// KeyFile is the file of the authority's key.
func (a *Authority) KeyFile() string { return a.path + ".key" }

// CertPEM is the authority's certificate.
func (a *Authority) CertPEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Pool trusts this authority only.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Fingerprint is the hex SHA-256 of the authority's certificate.
func (a *Authority) Fingerprint() string { return fingerprint(a.cert) }

func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// Sign issues a certificate for a public key.
func (a *Authority) Sign(subject Subject, public crypto.PublicKey) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(subject.DNSNames)+len(subject.Addresses) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	until := time.Now().Add(leafLife)
	if until.After(a.cert.NotAfter) {
		until = a.cert.NotAfter // a certificate does not outlive its authority
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: subject.Name, Organization: subject.Groups},
		DNSNames:     subject.DNSNames,
		IPAddresses:  subject.Addresses,
		NotBefore:    time.Now().Add(-backdate),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usages,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing certificate for %s: %w", subject.Name, err)
	}
	return encode("CERTIFICATE", der), nil
}

// openKey loads the private key at path or makes one.
func openKey(path string) (crypto.Signer, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	return made, datadir.WriteFile(path, encode("PRIVATE KEY", der))
}

func readKey(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("reading key %s: not PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading key %s: %w", path, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading key %s: %T cannot sign", path, parsed)
	}
	return key, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making serial number: %w", err)
	}
	return serial, nil
}

func parseCertificate(raw []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("not a PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing certificate: %w", err)
	}
	return cert, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
