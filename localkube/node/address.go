package node

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
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
