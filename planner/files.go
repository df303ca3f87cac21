package planner

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// selectedFiles returns the files of spec.machineSelectorFiles whose selectors match the machine.
func (l *look) selectedFiles() ([]plan.File, error) {
	var files []plan.File
	room := maxPlanBytes
	for i, entry := range l.Spec.MachineSelectorFiles {
		where := l.planner.files[i].where
		matches, err := l.planner.files[i].matches(l.Labels)
		if err != nil {
			return nil, because(rkev1.FileSourceInvalidReason, "%v", err)
		}
		if !matches {
			continue
		}
		for _, source := range entry.FileSources {
			for _, from := range []struct {
				kind string
				rkev1.K8sObjectFileSource
			}{{SecretKind, source.Secret}, {ConfigMapKind, source.ConfigMap}} {
				if from.Name == "" {
					continue
				}
				more, err := l.filesOf(where, from.kind, from.K8sObjectFileSource, &room)
				if err != nil {
					return nil, err
				}
				files = append(files, more...)
			}
		}
	}
	return files, nil
}

// filesOf makes files from an object that is shared with the cluster, and subtracts their size from
// room: otherwise a key that is named a thousand times would be in memory a thousand times before
// the plan is rejected as too large.
func (l *look) filesOf(where, kind string, source rkev1.K8sObjectFileSource, room *int) ([]plan.File, error) {
	object, err := l.shared(where, kind, source.Name)
	if err != nil {
		return nil, err
	}
	var files []plan.File
	for _, item := range source.Items {
		content, found := object.Data[item.Key]
		if *room -= base64.StdEncoding.EncodedLen(len(content)); *room < 0 {
			return nil, because(rkev1.ConfigInvalidReason, "%s: the files exceed the limit of %d bytes for a plan: use fewer or smaller files", where, maxPlanBytes)
		}
		sum := sha256.Sum256(content)
		is := base64.StdEncoding.EncodeToString(sum[:])
		switch {
		case !found:
			return nil, because(rkev1.FileSourceInvalidReason, "%s: %s %.100q has no key %.100q", where, kind, source.Name, item.Key)
		case path.Clean("/"+item.Path) != item.Path || item.Path == "/":
			return nil, because(rkev1.FileSourceInvalidReason, "%s: %.200q is not an absolute path of a file", where, item.Path)
		case subtle.ConstantTimeCompare([]byte(cmp.Or(item.Hash, is)), []byte(is)) == 0:
			return nil, because(rkev1.FileSourceInvalidReason, "%s: the SHA-256 of key %.100q of %s %.100q does not match hash", where, item.Key, kind, source.Name)
		}
		file := plan.NewFile(item.Path, cmp.Or(item.Permissions, source.DefaultPermissions, "0600"), content)
		file.Dynamic = item.Dynamic
		files = append(files, file)
	}
	return files, nil
}

// shared is an object that is shared with the cluster.
func (l *look) shared(where, kind, name string) (Object, error) {
	object, found := l.Objects[ObjectKey{kind, name}]
	if !found {
		return object, because(rkev1.FileSourceMissingReason, "%s: the control plane's namespace has no %s %.100q", where, kind, name).of(kind, name)
	}
	lists := func(cluster string) bool { return strings.TrimSpace(cluster) == l.Cluster.Name }
	if !slices.ContainsFunc(strings.Split(object.AuthorizedClusters, ","), lists) {
		return object, because(rkev1.FileSourceNotAuthorizedReason, "%s: the annotation %s of %s %.100q does not list %s", where,
			rkev1.AuthorizedForClustersAnnotation, kind, name, l.Cluster.Name).of(kind, name)
	}
	return object, nil
}

// authorityFile is a file under server/tls of the data directory. The names are k3s' and RKE2's
// (their documentation, "Using Custom CA Certificates").
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

// plan returns the files for the init node. They exist before its first start, so that it makes no
// authorities of its own; other servers get them from it.
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

// pinned is a join token that only a server with the cluster's authority gets to see (k3s
// pkg/clientaccess): the sha256 of the certificate as it is served or, of a chain, of its root in
// DER.
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

// root follows the issuers from the first certificate. It verifies nothing: the chain is the user's
// own.
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

// maxGone bounds how many files of earlier plans are remembered.
const maxGone = 256

// gone returns the files of earlier plans that this plan no longer has. The agent deletes them.
// They stay in plans as deleted, so that rendering again gives the same plan. It leaves out files
// that the distribution has taken over: its authorities, and its configuration once Drover no
// longer writes it.
func (l *look) gone(files []plan.File) []plan.File {
	keep := map[string]bool{l.configPath(mainConfig): true}
	for _, file := range files {
		keep[file.Path] = true
	}
	var gone []plan.File
	for _, path := range l.progress.delivered.Paths {
		if keep[path] || l.Spec.UnmanagedConfig && strings.HasPrefix(path, etcDir) || strings.HasPrefix(path, l.dataDir()+"/server/tls/") {
			continue
		}
		gone = append(gone, plan.File{Path: path, Action: plan.ActionDelete, Dynamic: true})
	}
	slices.SortFunc(gone, func(a, b plan.File) int { return strings.Compare(a.Path, b.Path) })
	return gone[:min(len(gone), maxGone)]
}
