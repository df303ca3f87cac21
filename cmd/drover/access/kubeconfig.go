package access

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is the way to one cluster.
type Kubeconfig struct {
	// Name of the context, of its cluster and of its user: namespace/cluster, so that clusters of
	// one name have room beside each other.
	Name string

	cluster *clientcmdapi.Cluster
	user    *clientcmdapi.AuthInfo
}

// NewKubeconfig keeps the inline data of a cluster's kubeconfig. It drops commands, files and
// proxies, because the user's kubectl would use them with the user's rights.
func NewKubeconfig(namespace, cluster string, config *rest.Config) *Kubeconfig {
	return &Kubeconfig{Name: namespace + "/" + cluster,
		cluster: &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure, CertificateAuthorityData: config.CAData},
		user: &clientcmdapi.AuthInfo{Token: config.BearerToken, Username: config.Username, Password: config.Password,
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}}
}

// Text is a kubeconfig of this cluster alone.
func (k *Kubeconfig) Text() ([]byte, error) {
	config := clientcmdapi.NewConfig()
	k.putInto(config)
	config.CurrentContext = k.Name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return text, nil
}

// Write puts it into a file of its own, readable by the user alone. A file with anything else in
// it, or of a cluster of its name with another authority, is replaced only with force.
func (k *Kubeconfig) Write(path string, force bool) error {
	text, err := k.Text()
	if err != nil {
		return err
	}
	if path, err = followLink(path); err != nil {
		return err
	}
	if !force {
		// A file is replaced that is this cluster's and nothing else.
		there, err := clientcmd.LoadFromFile(path)
		if !errors.Is(err, fs.ErrNotExist) && (err != nil || len(there.Contexts) != 1 || there.Contexts[k.Name] == nil) {
			return fmt.Errorf("%s holds something else than the kubeconfig of %s: add to it with --merge, replace it with --force, or choose another --file", path, k.Name)
		}
		if err == nil && k.isAnother(there.Clusters[there.Contexts[k.Name].Cluster]) {
			return fmt.Errorf("%s holds the kubeconfig of a cluster %s with another authority: %s, or choose another --file", path, k.Name, anothers)
		}
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := writeFile(root, KeyFile{filepath.Base(path), text}); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// followLink is the file that a symbolic link names, which is replaced in place of the link; any
// other path stays.
func followLink(path string) (string, error) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil //nolint:nilerr // a file that does not exist is created
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("following the link %s: %w", path, err)
	}
	return target, nil
}

// Merge adds k to the user's kubeconfig, replaces the entries of an earlier Merge, and returns the
// path of the written file. use makes k the current context. Entries with the same name and another
// server are replaced only with force.
func (k *Kubeconfig) Merge(files clientcmd.ConfigAccess, use, force bool) (string, error) {
	config, err := files.GetStartingConfig()
	if err != nil {
		return "", fmt.Errorf("reading your kubeconfig: %w", err)
	}
	if there := config.Clusters[k.Name]; there != nil && !force && k.isAnother(there) {
		return "", fmt.Errorf("your kubeconfig has a cluster %s already, with another authority: %s", k.Name, anothers)
	}
	k.putInto(config)
	if use {
		config.CurrentContext = k.Name
	}
	path := cmp.Or(config.Contexts[k.Name].LocationOfOrigin, files.GetDefaultFilename())
	for _, written := range []string{path, cmp.Or(config.AuthInfos[k.Name].LocationOfOrigin, path), cmp.Or(config.Clusters[k.Name].LocationOfOrigin, path)} {
		if err := os.Chmod(written, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is made is made so
			return "", fmt.Errorf("keeping your kubeconfig for you alone: %w", err)
		}
	}
	if err := clientcmd.ModifyConfig(files, *config, true); err != nil {
		return "", fmt.Errorf("writing your kubeconfig: %w", err)
	}
	return path, nil
}

const anothers = "it may belong to another management cluster, or was created again; replace it with --force"

// isAnother reports whether a cluster of this name has another authority.
func (k *Kubeconfig) isAnother(there *clientcmdapi.Cluster) bool {
	return there == nil || !bytes.Equal(there.CertificateAuthorityData, k.cluster.CertificateAuthorityData)
}

// putInto writes the entries into config. It keeps each existing entry's file of origin, and the
// namespace and extensions of an existing context.
func (k *Kubeconfig) putInto(config *clientcmdapi.Config) {
	cluster, user, context := k.cluster.DeepCopy(), k.user.DeepCopy(), clientcmdapi.NewContext()
	if there := config.Clusters[k.Name]; there != nil {
		cluster.LocationOfOrigin = there.LocationOfOrigin
	}
	if there := config.AuthInfos[k.Name]; there != nil {
		user.LocationOfOrigin = there.LocationOfOrigin
	}
	if there := config.Contexts[k.Name]; there != nil {
		context = there
	}
	context.Cluster, context.AuthInfo = k.Name, k.Name
	config.Clusters[k.Name], config.AuthInfos[k.Name], config.Contexts[k.Name] = cluster, user, context
}
