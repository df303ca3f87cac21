package endpoint

import (
	"net"
	"net/netip"
)

// AddressOf returns the client's address; for IPv6 it returns the network, because one client has a
// whole network.
func AddressOf(hostPort string) netip.Addr {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return address
	}
	const network = 64
	prefix, err := address.Prefix(network)
	if err != nil {
		return address
	}
	return prefix.Addr()
}
