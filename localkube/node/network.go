package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks the routes that localkube made, so that it can find them.
const routeProtocol = 198

// openNetwork lets this machine route pod and service traffic.
func (n *Node) openNetwork(ctx context.Context) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("enabling IP forwarding: %w", err)
	}
	// Traffic to pods and services that do not exist does not leave by the default route, and
	// service addresses have a route on machines that have no default route: kube-proxy rewrites
	// them only after the kernel has found one.
	_, pods, err := net.ParseCIDR(n.Pods)
	if err != nil {
		return fmt.Errorf("reading the range of pods: %w", err)
	}
	_, services, err := net.ParseCIDR(n.Services)
	if err != nil {
		return fmt.Errorf("reading the range of services: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	for _, route := range []*netlink.Route{
		{Dst: pods, Type: unix.RTN_UNREACHABLE, Protocol: routeProtocol},
		{Dst: services, LinkIndex: lo.Attrs().Index, Src: n.Address, Scope: netlink.SCOPE_LINK, Protocol: routeProtocol},
	} {
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing %s: %w", route.Dst, err)
		}
	}
	// The remains of an earlier run would be duplicated.
	if err := removeRules(ctx, localkubePrefix); err != nil {
		return err
	}
	rules := []string{
		"*filter",
		":" + forwardChain + " - [0:0]",
		"-A " + forwardChain + " -s " + n.Pods + " -j ACCEPT",
		"-A " + forwardChain + " -d " + n.Pods + " -j ACCEPT",
		"-I FORWARD 1 -j " + forwardChain,
		"COMMIT", "",
	}
	if n.Packaged {
		// Hosts outside the cluster have no route to its pods.
		rules = append([]string{
			"*nat",
			":" + leavingChain + " - [0:0]",
			"-A " + leavingChain + " -s " + n.Pods + " ! -d " + n.Pods + " -j MASQUERADE",
			"-I POSTROUTING 1 -j " + leavingChain,
			"COMMIT",
		}, rules...)
	}
	return restoreTables(ctx, "iptables", strings.Join(rules, "\n"))
}

func removeRoutes() error {
	filter := &netlink.Route{Protocol: routeProtocol}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("listing routes: %w", err)
	}
	var errs []error
	for _, route := range routes {
		if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("removing route to %s: %w", route.Dst, err))
		}
	}
	return errors.Join(errs...)
}

const (
	// forwardChain accepts pod traffic whatever the policy of FORWARD is.
	forwardChain = localkubePrefix + "FORWARD"
	// leavingChain gives pod traffic that leaves the cluster the node's address.
	leavingChain = localkubePrefix + "LEAVING"
)

// DefaultAddress is the machine's own IPv4 address as seen by its default
// route, or its first address that is not loopback when it has no such route.
func DefaultAddress() (net.IP, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	for _, route := range routes {
		if route.Dst != nil && !route.Dst.IP.IsUnspecified() {
			continue
		}
		if route.Src != nil {
			return route.Src, nil
		}
		if ip := linkAddress(route.LinkIndex); ip != nil {
			return ip, nil
		}
	}
	if ip := linkAddress(0); ip != nil {
		return ip, nil
	}
	return nil, errors.New("this machine has no IPv4 address but loopback")
}

// linkAddress is the first global IPv4 address of a link, or of any link for 0.
func linkAddress(index int) net.IP {
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		if (index == 0 || a.LinkIndex == index) && a.IP.IsGlobalUnicast() {
			return a.IP
		}
	}
	return nil
}

// writeCNI stores the pod network's configuration; containerd sees the file
// appear. Each pod has a point-to-point link to the host and all its traffic is
// routed, also between pods of one node: so no bridge is left behind, service
// addresses work without bridge netfilter, and nothing is masqueraded.
func (n *Node) writeCNI(podCIDR string) error {
	raw, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "localkube",
		"plugins": []any{map[string]any{
			"type":   "ptp",
			"ipMasq": false,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": n.Dir.Path("cni", "addresses"),
				"ranges":  []any{[]any{map[string]string{"subnet": podCIDR}}},
				"routes":  []any{map[string]string{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding pod network: %w", err)
	}
	return n.Dir.Write(raw, "cni", "conf", "10-localkube.conflist")
}
