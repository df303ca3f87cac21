package identity

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"path/filepath"
)

// Request is what a node asks for. The keys stay with it.
type Request struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// Requests for certificates, PEM, of which only the keys count.
	KubeletClient  []byte `json:"kubeletClient"`
	KubeletServing []byte `json:"kubeletServing"`
	Proxy          []byte `json:"proxy"`
}

// Answer is what it gets: certificates, PEM.
type Answer struct {
	ServerCA       []byte `json:"serverCA"`
	ClientCA       []byte `json:"clientCA"`
	KubeletClient  []byte `json:"kubeletClient"`
	KubeletServing []byte `json:"kubeletServing"`
	Proxy          []byte `json:"proxy"`
	// Pods and Services are the cluster's ranges.
	Pods     string `json:"pods"`
	Services string `json:"services"`
}

// Signer makes the certificates of nodes.
type Signer struct {
	server, client *authority
	// ServerCA is the certificate of the authority of servers as it is in its file, ClientCA that of the authority of clients.
	ServerCA, ClientCA []byte
}

// Sign answers a node.
func (s *Signer) Sign(r Request) (Answer, error) {
	answer := Answer{ServerCA: s.ServerCA, ClientCA: s.ClientCA}
	if r.Name == "" || net.ParseIP(r.Address) == nil {
		return answer, errors.New("a node needs a name and an address")
	}
	for _, one := range []struct {
		what    string
		request []byte
		into    *[]byte
		by      *authority
		leaf
	}{
		{"kubeletClient", r.KubeletClient, &answer.KubeletClient, s.client, leaf{name: "system:node:" + r.Name, groups: []string{"system:nodes"}}},
		{"kubeletServing", r.KubeletServing, &answer.KubeletServing, s.server, leaf{name: r.Name, hosts: []string{r.Name, r.Address}}},
		{"proxy", r.Proxy, &answer.Proxy, s.client, leaf{name: "system:kube-proxy"}},
	} {
		block, _ := pem.Decode(one.request)
		if block == nil {
			return answer, fmt.Errorf("%s is no PEM", one.what)
		}
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err == nil {
			err = asked.CheckSignature()
		}
		if err != nil {
			return answer, fmt.Errorf("reading %s: %w", one.what, err)
		}
		if *one.into, err = one.by.certify(asked.PublicKey, one.leaf); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// NodeFiles are where a node's components find what they show and what they trust.
type NodeFiles struct {
	ClientCA       string
	Kubelet, Proxy string // kubeconfigs
	Serving        Pair
}

// Node is a node's own half: its keys.
type Node struct {
	dir     string
	Request Request
}

// NewNode makes the keys of a node below agent of a data directory.
func NewNode(dataDir, name, address string) (*Node, error) {
	n := &Node{dir: filepath.Join(dataDir, "agent"), Request: Request{Name: name, Address: address}}
	for _, one := range []struct {
		name string
		into *[]byte
	}{{kubeletClient, &n.Request.KubeletClient}, {kubeletServing, &n.Request.KubeletServing}, {proxyClient, &n.Request.Proxy}} {
		key, err := newKey(filepath.Join(n.dir, one.name+".key"))
		if err != nil {
			return nil, err
		}
		raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
		if err != nil {
			return nil, fmt.Errorf("asking for a certificate: %w", err)
		}
		*one.into = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
	}
	return n, nil
}

// The names of k3s.
const (
	kubeletClient  = "client-kubelet"
	kubeletServing = "serving-kubelet"
	proxyClient    = "client-kube-proxy"
)

// Take writes what the node was answered; server is the API server's address as the node reaches it.
func (n *Node) Take(a Answer, server string) (NodeFiles, error) {
	in := func(name string) string { return filepath.Join(n.dir, name) }
	for name, content := range map[string][]byte{
		"client-ca.crt": a.ClientCA, "server-ca.crt": a.ServerCA, kubeletClient + ".crt": a.KubeletClient,
		kubeletServing + ".crt": a.KubeletServing, proxyClient + ".crt": a.Proxy,
	} {
		if len(content) == 0 {
			return NodeFiles{}, fmt.Errorf("the server's answer has no %s", name)
		}
		if err := write(content, 0o644, in(name)); err != nil {
			return NodeFiles{}, err
		}
	}
	files := NodeFiles{ClientCA: in("client-ca.crt"), Kubelet: in("kubelet.kubeconfig"), Proxy: in("kubeproxy.kubeconfig"),
		Serving: Pair{in(kubeletServing + ".crt"), in(kubeletServing + ".key")}}
	return files, errors.Join(
		writeKubeconfig(files.Kubelet, server, a.ServerCA, Pair{in(kubeletClient + ".crt"), in(kubeletClient + ".key")}),
		writeKubeconfig(files.Proxy, server, a.ServerCA, Pair{in(proxyClient + ".crt"), in(proxyClient + ".key")}),
	)
}
