package identity

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/drover-project/drover/localkube/datadir"
)

// authority signs certificates.
type authority struct {
	// pem is its own certificate and, of one that another has signed, those above it.
	pem  []byte
	pair tls.Certificate
}

// openAuthority reads PATH.crt and PATH.key, or makes them.
func openAuthority(path, name string) (*authority, error) {
	if _, err := os.Stat(path + ".crt"); errors.Is(err, fs.ErrNotExist) {
		certificate, key, err := pkiutil.NewCertificateAuthority(config(cert.Config{CommonName: name}))
		if err != nil {
			return nil, fmt.Errorf("making the authority %s: %w", name, err)
		}
		content, err := encode(certificate, key)
		if err != nil {
			return nil, err
		}
		if err := content.write(path); err != nil {
			return nil, err
		}
	}
	content, err := os.ReadFile(path + ".crt")
	if err != nil {
		return nil, fmt.Errorf("reading the authority %s: %w", name, err)
	}
	pair, err := tls.LoadX509KeyPair(path+".crt", path+".key")
	if err != nil {
		return nil, fmt.Errorf("reading %s.crt and its key: %w", path, err)
	}
	return &authority{content, pair}, nil
}

// config is good from now on, also by clocks that are behind ours, and for kubeadm's time of an
// authority.
func config(c cert.Config) *pkiutil.CertConfig {
	c.NotBefore = time.Now().Add(-5 * time.Minute)
	return &pkiutil.CertConfig{Config: c, EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256}
}

// leaf describes a certificate.
type leaf struct {
	name   string
	groups []string
	// hosts are the names and addresses of a server; a certificate without hosts is for a client.
	hosts []string
	// isMember: members of etcd are servers and clients of each other.
	isMember bool
}

// issue makes a certificate and, for an intermediate authority, its chain: a client that trusts
// only the root needs the intermediate certificates.
func (a *authority) issue(l leaf) (signed, error) {
	c := cert.Config{CommonName: l.name, Organization: l.groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if len(l.hosts) > 0 {
		c.Usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	if l.isMember {
		c.Usages = append(c.Usages, x509.ExtKeyUsageClientAuth)
	}
	for _, name := range l.hosts {
		if ip := net.ParseIP(name); ip != nil {
			c.AltNames.IPs = append(c.AltNames.IPs, ip)
		} else {
			c.AltNames.DNSNames = append(c.AltNames.DNSNames, name)
		}
	}
	wanted := config(c)
	wanted.NotAfter = time.Now().Add(constants.CertificateValidityPeriod)
	certificate, key, err := pkiutil.NewCertAndKey(a.pair.Leaf, a.pair.PrivateKey.(crypto.Signer), wanted)
	if err != nil {
		return signed{}, fmt.Errorf("making the certificate of %s: %w", l.name, err)
	}
	made, err := encode(certificate, key)
	if len(a.pair.Certificate) > 1 {
		made.Certificate = append(made.Certificate, a.pem...)
	}
	return made, err
}

// signed is a certificate and its key, PEM.
type signed struct {
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`
}

func encode(certificate *x509.Certificate, key crypto.Signer) (signed, error) {
	content, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return signed{}, fmt.Errorf("encoding a key: %w", err)
	}
	return signed{pkiutil.EncodeCertPEM(certificate), content}, nil
}

// write makes PATH.crt and PATH.key. The certificate is written last: if it exists, both are
// complete.
func (s signed) write(path string) error {
	return errors.Join(write(s.Key, path+".key"), write(s.Certificate, path+".crt"))
}

// write puts a file in its place as a whole.
func write(content []byte, path string) error {
	return datadir.Dir(filepath.Dir(path)).Write(content, filepath.Base(path))
}
