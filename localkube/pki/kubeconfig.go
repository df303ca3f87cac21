package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/localkube/datadir"
)

// kubeconfigName is what cluster and context are called in every kubeconfig of ours.
const kubeconfigName = "localkube"

// OwnKubeconfig tells whether a file is a kubeconfig of ours and holds nothing else.
func OwnKubeconfig(raw []byte) bool {
	cfg, err := clientcmd.Load(raw)
	if err != nil || len(cfg.Clusters) != 1 || len(cfg.Contexts) != 1 || len(cfg.AuthInfos) != 1 {
		return false
	}
	return cfg.Clusters[kubeconfigName] != nil && cfg.Contexts[kubeconfigName] != nil
}

// Kubeconfig describes a kubeconfig with everything embedded.
type Kubeconfig struct {
	Server string
	CA     []byte
	User   string
	Pair   Pair
}

// Encode returns the file's content.
func (k Kubeconfig) Encode() ([]byte, error) {
	cert, err := os.ReadFile(k.Pair.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading certificate of %s: %w", k.User, err)
	}
	key, err := os.ReadFile(k.Pair.Key)
	if err != nil {
		return nil, fmt.Errorf("reading key of %s: %w", k.User, err)
	}
	const name = kubeconfigName
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: k.Server, CertificateAuthorityData: k.CA}
	cfg.AuthInfos[k.User] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: k.User}
	cfg.CurrentContext = name
	raw, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding kubeconfig of %s: %w", k.User, err)
	}
	return raw, nil
}

// Write stores the kubeconfig at path with mode 0600.
func (k Kubeconfig) Write(path string) error {
	raw, err := k.Encode()
	if err != nil {
		return err
	}
	return datadir.WriteFile(path, raw)
}

// ServerOf is the API server's URL in a kubeconfig.
func ServerOf(path string) (string, error) {
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig: %w", err)
	}
	cluster := cfg.Clusters[kubeconfigName]
	if cluster == nil {
		return "", fmt.Errorf("reading kubeconfig %s: it does not name localkube's cluster", path)
	}
	return cluster.Server, nil
}
