package node

import (
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
)

// Options describe this machine as a node.
type Options struct {
	// Name is the Node's name.
	Name string
	// Labels are set on the Node when it registers, as key=value.
	Labels []string
	// KubeletArgs are further kubelet flags, as name=value without dashes.
	KubeletArgs []string
	// ResolvConf is the resolver configuration pods get; without it pods know
	// no name server.
	ResolvConf string
}

// Validate checks what the kubelet would refuse, again and again, after the
// whole start.
func (o Options) Validate() error {
	for _, label := range o.Labels {
		key, value, found := strings.Cut(label, "=")
		if !found {
			return fmt.Errorf("--node-label %q is not key=value", label)
		}
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			return fmt.Errorf("--node-label %q is not a label: %s", label, problems[0])
		}
	}
	for _, arg := range o.KubeletArgs {
		if name, _, _ := strings.Cut(arg, "="); name == "" || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t") {
			return fmt.Errorf("--kubelet-arg %q is not name=value without dashes before the name", arg)
		}
	}
	return nil
}

// Cluster is what a node must know of its cluster.
type Cluster struct {
	// APIServer is the URL of the API server as seen from this machine.
	APIServer string
	// CA is the cluster's certificate authority, CAFile the same on disk.
	CA     []byte
	CAFile string
	// PodCIDR and ServiceCIDR are the cluster's ranges.
	PodCIDR, ServiceCIDR string
}

// Identities are the certificates of a node's processes.
type Identities struct {
	Kubelet, KubeletServing, Proxy pki.Pair
}

// KubeletSubject is whom a node's kubelet speaks for.
func KubeletSubject(name string) pki.Subject {
	return pki.Subject{Name: "system:node:" + name, Groups: []string{"system:nodes"}}
}

// KubeletServingSubject is what a node's kubelet answers as.
func KubeletServingSubject(name string, address net.IP) pki.Subject {
	return pki.Subject{Name: "kubelet:" + name, DNSNames: []string{name}, Addresses: []net.IP{address}}
}

// ProxySubject is whom kube-proxy speaks for; the API server's own roles let
// this user read services and endpoints.
func ProxySubject() pki.Subject { return pki.Subject{Name: "system:kube-proxy"} }

// layout names the node's files below the data directory.
type layout struct{ datadir.Dir }

func (l layout) containerdConfig() string { return l.Path("containerd", "config.toml") }
func (l layout) containerdSocket() string { return l.Path("containerd", "containerd.sock") }
func (l layout) containerdState() string  { return l.Path("containerd", "state") }
func (l layout) kubeletConfig() string    { return l.Path("kubelet.yaml") }
func (l layout) proxyConfig() string      { return l.Path("kube-proxy.yaml") }
func (l layout) cniConfig() string        { return l.Path("cni", "conf") }
func (l layout) marker() string           { return l.Path("node", "restore.json") }

func (l layout) kubeconfig(user string) string {
	return l.Path("kubeconfigs", user+".kubeconfig")
}
