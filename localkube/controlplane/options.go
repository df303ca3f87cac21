package controlplane

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/pki"
	"github.com/drover-project/drover/localkube/process"
)

// Options describe one server's control plane.
type Options struct {
	Dir    datadir.Dir
	Config datadir.Config
	Store  *pki.Store
	// BindAddress is what the API server listens on.
	BindAddress net.IP
	// AdvertiseAddress is where pods and other servers reach the API server.
	// A loopback address means that nobody but this machine does.
	AdvertiseAddress net.IP
	// ExtraNames are additional names and addresses in the serving certificate.
	ExtraNames []string
	// NoFsync makes etcd fast and forgetful; for tests.
	NoFsync bool
}

// URL is how this machine's own components reach the API server.
func (o Options) URL() string {
	host := o.BindAddress
	if host.IsUnspecified() {
		host = net.IPv4(127, 0, 0, 1)
	}
	return "https://" + net.JoinHostPort(host.String(), strconv.Itoa(o.Config.HTTPSPort))
}

// AdvertiseURL is how other machines reach the API server.
func (o Options) AdvertiseURL() string {
	return "https://" + net.JoinHostPort(o.AdvertiseAddress.String(), strconv.Itoa(o.Config.HTTPSPort))
}

func (o Options) kubeconfig(component string) string {
	return o.Dir.Path("kubeconfigs", component+".kubeconfig")
}

// FirstServiceIP is the address of the kubernetes Service in a service range.
func FirstServiceIP(cidr string) (net.IP, error) {
	_, network, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("reading service range: %w", err)
	}
	ip := network.IP.To4()
	if ip == nil {
		return nil, fmt.Errorf("reading service range: %s is not IPv4", cidr)
	}
	first := net.IPv4(ip[0], ip[1], ip[2], ip[3]+1)
	if !network.Contains(first) {
		return nil, fmt.Errorf("reading service range: %s has no room for a Service", cidr)
	}
	return first, nil
}

// component is a child that runs this same executable under another verb.
func (o Options) component(verb string, args ...string) process.Spec {
	return process.Spec{
		Name: verb,
		Path: process.Self,
		Args: append([]string{verb}, args...),
		Log:  o.Dir.Log(verb),
	}
}

// serverNames splits everything the API server is called into the names and
// addresses of its certificate.
func (o Options) serverNames() (names []string, addresses []net.IP, err error) {
	first, err := FirstServiceIP(o.Config.ServiceCIDR)
	if err != nil {
		return nil, nil, err
	}
	names = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", o.Config.NodeName,
	}
	addresses = []net.IP{first, net.IPv4(127, 0, 0, 1), net.IPv6loopback, o.AdvertiseAddress}
	if host, err := os.Hostname(); err == nil && host != o.Config.NodeName {
		names = append(names, host)
	}
	if o.BindAddress.IsUnspecified() {
		own, _ := net.InterfaceAddrs()
		for _, a := range own {
			if network, ok := a.(*net.IPNet); ok && !network.IP.IsLinkLocalUnicast() {
				addresses = append(addresses, network.IP)
			}
		}
	}
	for _, extra := range o.ExtraNames {
		if ip := net.ParseIP(extra); ip != nil {
			addresses = append(addresses, ip)
			continue
		}
		names = append(names, extra)
	}
	return names, addresses, nil
}

// AnswersAs tells whether a name or an address is this server's own: whoever
// had a certificate for it could answer in its place.
func (o Options) AnswersAs(name string, address net.IP) (bool, error) {
	names, addresses, err := o.serverNames()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(own, name) }) ||
		slices.ContainsFunc(addresses, address.Equal), nil
}
