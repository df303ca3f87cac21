package planner

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"

	"github.com/drover-project/drover/api/plan"
)

// authorityFile is a file under server/tls of the data directory. The names are k3s' and RKE2's (their documentation, "Using Custom CA Certificates").
type authorityFile struct {
	name, permissions string
	content           []byte
}

func (a Authorities) files() []authorityFile {
	var all []authorityFile
	for _, pair := range []struct {
		name string
		KeyPair
	}{{"server-ca", a.Server}, {"client-ca", a.Client}, {"request-header-ca", a.Proxy}, {"etcd/server-ca", a.EtcdServer}, {"etcd/peer-ca", a.EtcdPeer}} {
		all = append(all, authorityFile{pair.name + ".crt", "0644", pair.Certificate}, authorityFile{pair.name + ".key", "0600", pair.Key})
	}
	return append(all, authorityFile{"service.key", "0600", a.ServiceAccountKey})
}

// plan are the files of the init node. They are there before its first start, so that it makes no authorities of its own; other servers get them from it.
func (a Authorities) plan(dataDir string) func() ([]plan.File, error) {
	return func() ([]plan.File, error) {
		dir := dataDir + "/server/tls"
		files := []plan.File{{Path: dir, Directory: true, Permissions: "0700"}, {Path: dir + "/etcd", Directory: true, Permissions: "0700"}}
		for _, file := range a.files() {
			files = append(files, plan.NewFile(dir+"/"+file.name, file.permissions, file.content))
		}
		return files, nil
	}
}

// pinned is a join token that only a server with the cluster's authority gets to see (k3s pkg/clientaccess): the sha256 of the certificate as it is
// served or, of a chain, of its root in DER.
func pinned(user, password string, authority []byte) string {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(authority); block != nil && len(chain) < maxChain; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			chain = append(chain, certificate)
		}
	}
	pinned := authority
	if len(chain) > 1 {
		pinned = root(chain).Raw
	}
	sum := sha256.Sum256(pinned)
	return "K10" + hex.EncodeToString(sum[:]) + "::" + user + ":" + password
}

// maxChain is more certificates than any authority has.
const maxChain = 16

// root follows the issuers from the first certificate. Nothing is verified: the chain is the user's own.
func root(chain []*x509.Certificate) *x509.Certificate {
	current := chain[0]
	for range chain {
		at := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return string(c.RawSubject) == string(current.RawIssuer) })
		if at < 0 || chain[at] == current {
			break
		}
		current = chain[at]
	}
	return current
}
