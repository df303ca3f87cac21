package identity

import (
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// Pair has the paths of a certificate and its key.
type Pair struct{ Certificate, Key string }

// Files are the paths of the certificates, keys and authorities of a control plane's components.
type Files struct {
	// ServerCA signs server certificates, ClientCA client certificates.
	ServerCA  string
	ClientCA  Pair
	APIServer Pair
	// Kubelet is the API server's client certificate for kubelets.
	Kubelet Pair
	// ProxyCA and Proxy are for extensions of the API server, which identify it by ProxyName.
	ProxyCA string
	Proxy   Pair
	// EtcdCA signs the certificates of etcd's servers and clients, EtcdPeerCA those that its
	// members use with each other.
	EtcdCA, EtcdPeerCA               string
	EtcdServer, EtcdPeer, EtcdClient Pair
	// ServiceAccountKey signs tokens, which the API server checks by it.
	ServiceAccountKey string
	// Kubeconfigs by component, and the administrator's under "admin".
	Kubeconfigs map[string]string
}

const (
	// masters may do everything, whatever roles there are.
	masters = "system:masters"
	// ProxyName is whom extensions of the API server expect.
	ProxyName = "system:auth-proxy"
)

// Server is whom identities are made for.
type Server struct {
	// DataDir is the one of k3s, NodeName and Address are the machine's as a node.
	DataDir, NodeName, Address string
	// Names and addresses of the API server beside the node's own, URL where this machine's
	// components reach it.
	Names []string
	URL   string
}

// Issue reads the authorities below server/tls, or makes them, and makes all certificates and
// kubeconfigs. The signer makes the certificates of nodes.
func (s Server) Issue() (Files, *Signer, error) {
	tls := filepath.Join(s.DataDir, "server", "tls")
	pair := func(name string) Pair { return Pair{filepath.Join(tls, name+".crt"), filepath.Join(tls, name+".key")} }
	authorities := map[string]*authority{}
	for _, name := range []string{"server-ca", "client-ca", "request-header-ca", "etcd/server-ca", "etcd/peer-ca"} {
		a, err := openAuthority(filepath.Join(tls, name), "k3s-"+filepath.Base(name))
		if err != nil {
			return Files{}, nil, err
		}
		authorities[name] = a
	}
	files := Files{
		ServerCA: pair("server-ca").Certificate, ClientCA: pair("client-ca"), APIServer: pair("serving-kube-apiserver"),
		Kubelet: pair("client-kube-apiserver"), ProxyCA: pair("request-header-ca").Certificate, Proxy: pair("client-auth-proxy"),
		EtcdCA: pair("etcd/server-ca").Certificate, EtcdPeerCA: pair("etcd/peer-ca").Certificate,
		EtcdServer: pair("etcd/server-client"), EtcdPeer: pair("etcd/peer-server-client"), EtcdClient: pair("etcd/client"),
		ServiceAccountKey: filepath.Join(tls, "service.key"), Kubeconfigs: map[string]string{},
	}
	if _, _, err := keyutil.LoadOrGenerateKeyFile(files.ServiceAccountKey); err != nil {
		return Files{}, nil, fmt.Errorf("making the key of tokens: %w", err)
	}
	hosts := slices.Concat([]string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", s.NodeName, s.Address}, s.Names)
	members := []string{"localhost", "127.0.0.1", s.NodeName, s.Address}
	for _, made := range []struct {
		name, by string
		leaf
		// component is whose kubeconfig has it, file the name of that.
		component, file string
	}{
		{"serving-kube-apiserver", "server-ca", leaf{name: "kube-apiserver", hosts: hosts}, "", ""},
		{"client-kube-apiserver", "client-ca", leaf{name: "system:apiserver", groups: []string{masters}}, "", ""},
		{"client-auth-proxy", "request-header-ca", leaf{name: ProxyName}, "", ""},
		{"etcd/server-client", "etcd/server-ca", leaf{name: "etcd-server", hosts: members, isMember: true}, "", ""},
		{"etcd/client", "etcd/server-ca", leaf{name: "etcd-client"}, "", ""},
		{"etcd/peer-server-client", "etcd/peer-ca", leaf{name: "etcd-peer", hosts: members, isMember: true}, "", ""},
		{"client-admin", "client-ca", leaf{name: "system:admin", groups: []string{masters}}, "admin", "admin"},
		{"client-controller", "client-ca", leaf{name: "system:kube-controller-manager"}, "kube-controller-manager", "controller"},
		{"client-scheduler", "client-ca", leaf{name: "system:kube-scheduler"}, "kube-scheduler", "scheduler"},
	} {
		content, err := authorities[made.by].issue(made.leaf)
		if err != nil {
			return Files{}, nil, err
		}
		if err := content.write(filepath.Join(tls, made.name)); err != nil {
			return Files{}, nil, err
		}
		if made.component == "" {
			continue
		}
		path := filepath.Join(s.DataDir, "server", "cred", made.file+".kubeconfig")
		if err := writeKubeconfig(path, s.URL, authorities["server-ca"].pem, content); err != nil {
			return Files{}, nil, err
		}
		files.Kubeconfigs[made.component] = path
	}
	return files, &Signer{server: authorities["server-ca"], client: authorities["client-ca"]}, nil
}

// writeKubeconfig makes a kubeconfig that has everything in itself.
func writeKubeconfig(path, server string, ca []byte, client signed) error {
	const name = "default"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Certificate, ClientKeyData: client.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return write(content, path)
}
