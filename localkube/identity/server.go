package identity

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Pair has the paths of a certificate and its key.
type Pair struct{ Certificate, Key string }

// Files are where the components of a control plane find what they show and what they trust.
type Files struct {
	// ServerCA signs what servers show, ClientCA what clients show; they may be one.
	ServerCA  string
	ClientCA  Pair
	APIServer Pair
	// Kubelet is what the API server shows to kubelets. It trusts theirs by KubeletCA; any, if that is empty.
	Kubelet   Pair
	KubeletCA string
	// ProxyCA and Proxy are for extensions of the API server, who know it by ProxyName.
	ProxyCA   string
	Proxy     Pair
	ProxyName string
	// EtcdCA signs what etcd's servers and clients show, EtcdPeerCA what its members show.
	EtcdCA, EtcdPeerCA               string
	EtcdServer, EtcdPeer, EtcdClient Pair
	// ServiceAccountKey signs tokens; the API server checks them by ServiceAccountPublic, which may be the same file.
	ServiceAccountKey, ServiceAccountPublic string
	// Kubeconfigs by component, and the administrator's under "admin".
	Kubeconfigs map[string]string
}

// masters may do everything, whatever roles there are.
const masters = "system:masters"

// Server is whom identities are made for.
type Server struct {
	// DataDir is the one of k3s, NodeName and Address are the machine's as a node.
	DataDir, NodeName, Address string
	// Names and addresses of the API server beside the node's own, Port where it listens.
	Names []string
	Port  int
}

// Issue reads the authorities below server/tls, or makes them, and makes all certificates and kubeconfigs. The signer makes those of nodes.
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
	sa := filepath.Join(tls, "service.key")
	if err := readOrMakeKey(sa); err != nil {
		return Files{}, nil, err
	}
	members := []string{"localhost", "127.0.0.1", s.NodeName, s.Address}
	for _, made := range []struct {
		name, by string
		leaf
	}{
		{"serving-kube-apiserver", "server-ca", leaf{name: "kube-apiserver", hosts: s.hosts()}},
		{"client-kube-apiserver", "client-ca", leaf{name: "system:apiserver", groups: []string{masters}}},
		{"client-auth-proxy", "request-header-ca", leaf{name: proxyName}},
		{"etcd/server-client", "etcd/server-ca", leaf{name: "etcd-server", hosts: members, isMember: true}},
		{"etcd/client", "etcd/server-ca", leaf{name: "etcd-client"}},
		{"etcd/peer-server-client", "etcd/peer-ca", leaf{name: "etcd-peer", hosts: members, isMember: true}},
	} {
		if err := authorities[made.by].issue(filepath.Join(tls, made.name), made.leaf); err != nil {
			return Files{}, nil, err
		}
	}
	files := Files{
		ServerCA: pair("server-ca").Certificate, ClientCA: pair("client-ca"), APIServer: pair("serving-kube-apiserver"),
		Kubelet: pair("client-kube-apiserver"), KubeletCA: pair("server-ca").Certificate,
		ProxyCA: pair("request-header-ca").Certificate, Proxy: pair("client-auth-proxy"), ProxyName: proxyName,
		EtcdCA: pair("etcd/server-ca").Certificate, EtcdPeerCA: pair("etcd/peer-ca").Certificate,
		EtcdServer: pair("etcd/server-client"), EtcdPeer: pair("etcd/peer-server-client"), EtcdClient: pair("etcd/client"),
		ServiceAccountKey: sa, ServiceAccountPublic: sa, Kubeconfigs: map[string]string{},
	}
	serverCA, err := os.ReadFile(files.ServerCA)
	if err != nil {
		return Files{}, nil, fmt.Errorf("reading the authority of servers: %w", err)
	}
	clientCA, err := os.ReadFile(files.ClientCA.Certificate)
	if err != nil {
		return Files{}, nil, fmt.Errorf("reading the authority of clients: %w", err)
	}
	for _, client := range []struct {
		component, file string
		leaf
	}{
		{"admin", "admin", leaf{name: "system:admin", groups: []string{masters}}},
		{"kube-controller-manager", "controller", leaf{name: "system:kube-controller-manager"}},
		{"kube-scheduler", "scheduler", leaf{name: "system:kube-scheduler"}},
	} {
		if err := authorities["client-ca"].issue(filepath.Join(tls, "client-"+client.file), client.leaf); err != nil {
			return Files{}, nil, err
		}
		path := filepath.Join(s.DataDir, "server", "cred", client.file+".kubeconfig")
		if err := writeKubeconfig(path, "https://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), serverCA, pair("client-"+client.file)); err != nil {
			return Files{}, nil, err
		}
		files.Kubeconfigs[client.component] = path
	}
	return files, &Signer{server: authorities["server-ca"], client: authorities["client-ca"], ServerCA: serverCA, ClientCA: clientCA}, nil
}

// proxyName is whom extensions expect.
const proxyName = "system:auth-proxy"

func (s Server) hosts() []string {
	names := []string{"localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", s.NodeName, s.Address}
	for _, name := range s.Names {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// writeKubeconfig makes a kubeconfig that has everything in itself.
func writeKubeconfig(path, server string, ca []byte, client Pair) error {
	certificate, err := os.ReadFile(client.Certificate)
	if err != nil {
		return fmt.Errorf("reading a client's certificate: %w", err)
	}
	key, err := os.ReadFile(client.Key)
	if err != nil {
		return fmt.Errorf("reading a client's key: %w", err)
	}
	const name = "default"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return write(content, 0o600, path)
}
