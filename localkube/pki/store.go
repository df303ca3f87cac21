package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/localkube/datadir"
)

// Names of the files that every server of one cluster has in common; a joining
// server is given them.
var sharedFiles = []string{
	"ca.crt", "ca.key", "etcd-ca.crt", "etcd-ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
	"service-account.key", "service-account.pub", "token-server", "token-agent",
}

// Store is the identities of one server.
type Store struct {
	dir string

	// Cluster signs what speaks to the API server, and the API server.
	Cluster *Authority
	// Etcd signs etcd's members and clients.
	Etcd *Authority
	// FrontProxy signs the API server's identity towards aggregated servers.
	FrontProxy *Authority
}

// Pair is a certificate and its key on disk.
type Pair struct {
	Cert string
	Key  string
}

// Open loads the identities kept in dir and makes what is missing.
func Open(dir string) (*Store, error) {
	s, err := load(dir, openAuthority)
	if err != nil {
		return nil, err
	}
	key, err := openKey(s.ServiceAccountKey())
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding service-account key: %w", err)
	}
	return s, datadir.WriteFile(s.ServiceAccountPublicKey(), encode("PUBLIC KEY", der))
}

// Read loads the authorities kept in dir and writes nothing: it is for those
// who look at a server that is not theirs.
func Read(dir string) (*Store, error) { return load(dir, readAuthority) }

func load(dir string, open func(dir, name string) (*Authority, error)) (*Store, error) {
	s := &Store{dir: dir}
	for _, a := range []struct {
		name   string
		target **Authority
	}{{"ca", &s.Cluster}, {"etcd-ca", &s.Etcd}, {"front-proxy-ca", &s.FrontProxy}} {
		authority, err := open(dir, a.name)
		if err != nil {
			return nil, err
		}
		*a.target = authority
	}
	return s, nil
}

// ServiceAccountKey is the file of the key that signs service-account tokens.
func (s *Store) ServiceAccountKey() string { return filepath.Join(s.dir, "service-account.key") }

// ServiceAccountPublicKey is the file of the key that verifies them.
func (s *Store) ServiceAccountPublicKey() string { return filepath.Join(s.dir, "service-account.pub") }

// Issue writes a fresh certificate for subject under the given file name.
func (s *Store) Issue(by *Authority, name string, subject Subject) (Pair, error) {
	pair := PairAt(s.dir, name)
	key, err := openKey(pair.Key)
	if err != nil {
		return Pair{}, err
	}
	cert, err := by.Sign(subject, key.Public())
	if err != nil {
		return Pair{}, err
	}
	return pair, datadir.WriteFile(pair.Cert, cert)
}

// PairAt names the files of a certificate in a directory.
func PairAt(dir, name string) Pair {
	path := filepath.Join(dir, name)
	return Pair{Cert: path + ".crt", Key: path + ".key"}
}

// Expiry is when the certificate ceases to be valid.
func (p Pair) Expiry() (time.Time, error) {
	raw, err := os.ReadFile(p.Cert)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading certificate: %w", err)
	}
	cert, err := parseCertificate(raw)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading certificate %s: %w", p.Cert, err)
	}
	return cert.NotAfter, nil
}

// OpenKey loads the private key at path, or makes one there.
func OpenKey(path string) (crypto.Signer, error) { return openKey(path) }

// Shared returns the files a joining server needs, by name.
func (s *Store) Shared() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range sharedFiles {
		raw, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading shared identities: %w", err)
		}
		files[name] = raw
	}
	return files, nil
}

// Adopt stores the shared files of the cluster that is being joined, all or
// none. Files of other names are left out: they come over the network.
func Adopt(dir string, files map[string][]byte) error {
	for _, name := range sharedFiles {
		if len(files[name]) == 0 {
			return fmt.Errorf("adopting the cluster's identities: %s is missing", name)
		}
	}
	for _, name := range sharedFiles {
		if err := datadir.WriteFile(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	return nil
}

// Founded tells whether a directory already holds a cluster's identities.
func Founded(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, "ca.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for identities: %w", err)
	}
	return true, nil
}
