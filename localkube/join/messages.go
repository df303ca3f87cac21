package join

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxBody bounds every request and response.
const maxBody = 1 << 20

// AgentRequest asks for the identities of a node. Keys are PKIX PEM.
type AgentRequest struct {
	NodeName       string `json:"nodeName"`
	Address        string `json:"address"`
	Kubelet        []byte `json:"kubelet"`
	KubeletServing []byte `json:"kubeletServing"`
	Proxy          []byte `json:"proxy"`
}

// Validate checks what came over the network.
func (r AgentRequest) Validate() error {
	if net.ParseIP(r.Address) == nil {
		return errors.New("the node's address is not an IP address")
	}
	return validateName(r.NodeName)
}

// AgentResponse holds certificates (PEM) for the keys of the request, and what
// a node must know of its cluster.
type AgentResponse struct {
	Kubelet        []byte `json:"kubelet"`
	KubeletServing []byte `json:"kubeletServing"`
	Proxy          []byte `json:"proxy"`
	APIServer      string `json:"apiServer"`
	PodCIDR        string `json:"podCIDR"`
	ServiceCIDR    string `json:"serviceCIDR"`
}

// ServerRequest asks to become a member of etcd.
type ServerRequest struct {
	Name    string `json:"name"`
	PeerURL string `json:"peerURL"`
}

// Validate checks what came over the network.
func (r ServerRequest) Validate() error {
	if r.PeerURL == "" {
		return errors.New("the peer URL is missing")
	}
	// An address and a port and nothing else: the URL becomes part of etcd's list of members, where a comma would add another.
	hostPort, found := strings.CutPrefix(r.PeerURL, "https://")
	peer, err := netip.ParseAddrPort(hostPort)
	if !found || err != nil || peer.Port() == 0 || peer.Addr().Zone() != "" || peer.Addr().IsUnspecified() {
		return fmt.Errorf("%q is not a peer URL like https://198.18.0.2:2380", r.PeerURL)
	}
	return validateName(r.Name)
}

// ServerResponse is what makes a server of the same cluster.
type ServerResponse struct {
	// Identities are the files of package pki that all servers share.
	Identities     map[string][]byte `json:"identities"`
	InitialCluster string            `json:"initialCluster"`
	PodCIDR        string            `json:"podCIDR"`
	ServiceCIDR    string            `json:"serviceCIDR"`
}

// PromoteRequest asks that a member that has caught up may vote.
type PromoteRequest struct {
	Name string `json:"name"`
}

// Validate checks what came over the network.
func (r PromoteRequest) Validate() error { return validateName(r.Name) }

func validateName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q is not a node name: %s", name, problems[0])
	}
	return nil
}
