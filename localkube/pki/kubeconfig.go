package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/localkube/datadir"
)

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
	const name = "localkube"
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
