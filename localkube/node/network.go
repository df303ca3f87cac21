package node

import (
	"context"
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
	if err := n.catchRanges(); err != nil {
		return err
	}
	return acceptForwarding(ctx, n.cluster.PodCIDR)
}

// catchRanges keeps traffic to pods and services that do not exist from
// leaving by the default route, and gives service addresses a route on
// machines that have no default route: kube-proxy rewrites them only after
// the kernel has found one.
func (n *Node) catchRanges() error {
	_, pods, err := net.ParseCIDR(n.cluster.PodCIDR)
	if err != nil {
		return fmt.Errorf("reading pod range: %w", err)
	}
	_, services, err := net.ParseCIDR(n.cluster.ServiceCIDR)
	if err != nil {
		return fmt.Errorf("reading service range: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("looking for the loopback interface: %w", err)
	}
	for _, route := range []*netlink.Route{
		{Dst: pods, Type: unix.RTN_UNREACHABLE, Protocol: routeProtocol},
		{Dst: services, LinkIndex: lo.Attrs().Index, Src: n.address, Scope: netlink.SCOPE_LINK, Protocol: routeProtocol},
	} {
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("routing %s: %w", route.Dst, err)
		}
	}
	return nil
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

// forwardChain accepts pod traffic whatever the policy of FORWARD is.
const forwardChain = "LOCALKUBE-FORWARD"

func acceptForwarding(ctx context.Context, podCIDR string) error {
	rules := strings.Join([]string{
		"*filter",
		":" + forwardChain + " - [0:0]",
		"-A " + forwardChain + " -s " + podCIDR + " -j ACCEPT",
		"-A " + forwardChain + " -d " + podCIDR + " -j ACCEPT",
		"-I FORWARD 1 -j " + forwardChain,
		"COMMIT", "",
	}, "\n")
	return restoreTables(ctx, "iptables", rules)
}
