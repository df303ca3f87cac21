package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
	"github.com/drover-project/drover/localkube/pki"
)

// Default address ranges; both lie in the range reserved for benchmarks, so
// they collide with no network a test machine is in.
const (
	DefaultPodCIDR     = "198.19.0.0/17"
	DefaultServiceCIDR = "198.19.128.0/17"
)

// Options say what to run.
type Options struct {
	// DataDir is where everything is kept.
	DataDir string
	// BindAddress is what the API server listens on: by default 127.0.0.1, and
	// all addresses when this machine is a node, because pods must reach it.
	BindAddress string
	// AdvertiseAddress is where pods and other machines reach this one.
	AdvertiseAddress string
	// HTTPSPort is the API server's port; 0 picks one and keeps it.
	HTTPSPort int
	// ServiceCIDR and PodCIDR are fixed at the first start.
	ServiceCIDR, PodCIDR string
	// TLSNames are extra names and addresses in the serving certificate.
	TLSNames []string
	// NoFsync makes etcd forget on power loss, and fast.
	NoFsync bool
	// Ephemeral removes the data directory at the end and does not wait for
	// anything to stop gracefully.
	Ephemeral bool
	// Disable names components that are not run.
	Disable []string
	// Kubeconfig is a further place to write the administrator's kubeconfig to.
	Kubeconfig string
	// RunNode makes this machine a node as well; Node says how.
	RunNode bool
	Node    node.Options
	// JoinURL and JoinToken make this a further server of a running cluster.
	JoinURL, JoinToken string
}

func (o Options) disabled(component string) bool {
	return slices.ContainsFunc(o.Disable, func(name string) bool {
		return name == component || "kube-"+name == component
	})
}

func (o Options) validate() error {
	for _, name := range o.Disable {
		switch strings.TrimPrefix(name, "kube-") {
		case "controller-manager", "scheduler":
		default:
			return fmt.Errorf("--disable %s: only controller-manager and scheduler can be disabled", name)
		}
	}
	if err := o.validateNames(); err != nil {
		return err
	}
	if err := checkRanges(o.PodCIDR, o.ServiceCIDR); err != nil {
		return err
	}
	if o.HTTPSPort < 0 || o.HTTPSPort > 65535 {
		return fmt.Errorf("--https-port %d is not a port: give one from 1 to 65535, or 0 to pick one", o.HTTPSPort)
	}
	if o.RunNode && (o.disabled(controlplane.ControllerManagerName) || o.disabled(controlplane.SchedulerName)) {
		return errors.New("--node needs the controller manager and the scheduler")
	}
	if o.Ephemeral && o.RunNode {
		return errors.New("--ephemeral and --node exclude each other: a node is taken down gracefully")
	}
	if (o.JoinURL == "") != (o.JoinToken == "") {
		return errors.New("--join and --token belong together")
	}
	return checkKubeconfig(o.Kubeconfig)
}

// checkKubeconfig keeps us from writing over the access to other clusters.
func checkKubeconfig(path string) error {
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at --kubeconfig: %w", err)
	}
	if !pki.OwnKubeconfig(raw) {
		return fmt.Errorf("--kubeconfig %s holds something else than the access to a localkube: name another file", path)
	}
	return nil
}

// validateNames checks what would otherwise fail long after the start.
func (o Options) validateNames() error {
	if err := validateName("--node-name", o.Node.Name); o.Node.Name != "" && err != nil {
		return err
	}
	for _, name := range o.TLSNames {
		if net.ParseIP(name) == nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("--tls-san %q is neither a name nor an address", name)
		}
	}
	return o.Node.Validate()
}

func validateName(source, name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%s %q is not a node name: %s", source, name, problems[0])
	}
	return nil
}

// hostName is the name of a machine that was given none.
func hostName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming the node (set --node-name): %w", err)
	}
	host = strings.ToLower(host)
	if err := validateName("set --node-name: the host name", host); err != nil {
		return "", err
	}
	return host, nil
}

// addresses resolves what to listen on and what to tell others.
func (o Options) addresses() (bind, advertise net.IP, err error) {
	wide := o.RunNode || o.JoinURL != ""
	bind = net.IPv4(127, 0, 0, 1)
	if wide {
		bind = net.IPv4zero
	}
	if o.BindAddress != "" {
		if bind = net.ParseIP(o.BindAddress); bind == nil {
			return nil, nil, fmt.Errorf("--bind-address %s is not an IP address", o.BindAddress)
		}
	}
	switch {
	case o.AdvertiseAddress != "":
		if advertise = net.ParseIP(o.AdvertiseAddress); advertise == nil {
			return nil, nil, fmt.Errorf("--advertise-address %s is not an IP address", o.AdvertiseAddress)
		}
	case !bind.IsUnspecified():
		advertise = bind
	default:
		if advertise, err = node.DefaultAddress(); err != nil {
			return nil, nil, fmt.Errorf("finding an address to advertise (set --advertise-address): %w", err)
		}
	}
	if wide && advertise.IsLoopback() {
		return nil, nil, fmt.Errorf("pods and other machines cannot reach %s: set --advertise-address", advertise)
	}
	return bind, advertise, nil
}

// wanted is what the command line says about the settings that are kept.
func (o Options) wanted(first bool) (datadir.Config, error) {
	cfg := datadir.Config{NodeName: o.Node.Name, PodCIDR: o.PodCIDR, ServiceCIDR: o.ServiceCIDR, HTTPSPort: o.HTTPSPort}
	if !first {
		return cfg, nil
	}
	if cfg.PodCIDR == "" {
		cfg.PodCIDR = DefaultPodCIDR
	}
	if cfg.ServiceCIDR == "" {
		cfg.ServiceCIDR = DefaultServiceCIDR
	}
	if cfg.NodeName == "" {
		host, err := hostName()
		if err != nil {
			return datadir.Config{}, err
		}
		cfg.NodeName = host
	}
	return cfg, nil
}
