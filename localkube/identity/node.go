package identity

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Request is the request of a node.
type Request struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Answer is the answer to it, PEM.
type Answer struct {
	ServerCA []byte `json:"serverCA"`
	ClientCA []byte `json:"clientCA"`
	Kubelet  signed `json:"kubelet"`
	Serving  signed `json:"serving"`
	Proxy    signed `json:"proxy"`
	// Pods and Services are the cluster's ranges.
	Pods     string `json:"pods"`
	Services string `json:"services"`
}

// Signer makes the certificates of nodes.
type Signer struct {
	server, client *authority
}

// ServerCA is the certificate of the authority of servers as it is in its file.
func (s *Signer) ServerCA() []byte { return s.server.pem }

// Sign answers a node.
func (s *Signer) Sign(r Request) (Answer, error) {
	answer := Answer{ServerCA: s.server.pem, ClientCA: s.client.pem}
	if r.Name == "" || net.ParseIP(r.Address) == nil {
		return answer, errors.New("a node needs a name and an address")
	}
	var errs [3]error
	answer.Kubelet, errs[0] = s.client.issue(leaf{name: "system:node:" + r.Name, groups: []string{"system:nodes"}})
	answer.Serving, errs[1] = s.server.issue(leaf{name: r.Name, hosts: []string{r.Name, r.Address}})
	answer.Proxy, errs[2] = s.client.issue(leaf{name: "system:kube-proxy"})
	return answer, errors.Join(errs[:]...)
}

// NodeFiles are the paths of the certificates, keys and authorities of a node's components.
type NodeFiles struct {
	ClientCA       string
	Kubelet, Proxy string // kubeconfigs
	Serving        Pair
}

// Take writes a node's answer below agent of a data directory, under the names of k3s; server is
// the API server's URL as the node reaches it.
func (a Answer) Take(dataDir, server string) (NodeFiles, error) {
	in := func(name string) string { return filepath.Join(dataDir, "agent", name) }
	for name, content := range map[string][]byte{"client-ca.crt": a.ClientCA, "server-ca.crt": a.ServerCA} {
		if len(content) == 0 {
			return NodeFiles{}, fmt.Errorf("the server's answer has no %s", name)
		}
		if err := write(content, in(name)); err != nil {
			return NodeFiles{}, err
		}
	}
	files := NodeFiles{ClientCA: in("client-ca.crt"), Kubelet: in("kubelet.kubeconfig"), Proxy: in("kubeproxy.kubeconfig"),
		Serving: Pair{in("serving-kubelet.crt"), in("serving-kubelet.key")}}
	for name, content := range map[string]signed{"client-kubelet": a.Kubelet, "serving-kubelet": a.Serving, "client-kube-proxy": a.Proxy} {
		if len(content.Certificate) == 0 || len(content.Key) == 0 {
			return NodeFiles{}, fmt.Errorf("the server's answer has no %s", name)
		}
		if err := content.write(in(name)); err != nil {
			return NodeFiles{}, err
		}
	}
	return files, errors.Join(writeKubeconfig(files.Kubelet, server, a.ServerCA, a.Kubelet), writeKubeconfig(files.Proxy, server, a.ServerCA, a.Proxy))
}
