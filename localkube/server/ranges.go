package server

import (
	"errors"
	"fmt"
	"net"

	"github.com/drover-project/drover/localkube/controlplane"
)

// The sizes of ranges that Kubernetes takes: the controller manager gives each
// node a /24 of the pods' and knows 2^16 nodes, the API server knows 2^20 Services.
const (
	widestPods, narrowestPods = 8, 24
	widestServices            = 12
)

// checkRanges checks the ranges of pods and services, each of which may be
// unknown. They are fixed at the first start, so a wrong one must not get in.
func checkRanges(pods, services string) error {
	podNet, podErr := parseRange("--pod-cidr", pods, widestPods, narrowestPods)
	serviceNet, serviceErr := parseRange("--service-cidr", services, widestServices, 32)
	if err := errors.Join(podErr, serviceErr); err != nil {
		return err
	}
	if services != "" {
		if _, err := controlplane.FirstServiceIP(services); err != nil {
			return err
		}
	}
	if podNet == nil || serviceNet == nil {
		return nil
	}
	if podNet.Contains(serviceNet.IP) || serviceNet.Contains(podNet.IP) {
		return fmt.Errorf("pods (%s) and services (%s) must not share addresses: set --pod-cidr and --service-cidr", podNet, serviceNet)
	}
	return nil
}

// parseRange reads an IPv4 range whose prefix is within two lengths.
func parseRange(flag, cidr string, widest, narrowest int) (*net.IPNet, error) {
	if cidr == "" {
		return nil, nil
	}
	ip, network, err := net.ParseCIDR(cidr)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", flag, err)
	}
	if ip.To4() == nil {
		return nil, fmt.Errorf("%s %s is not IPv4, which is all that is supported", flag, cidr)
	}
	if !ip.Equal(network.IP) {
		return nil, fmt.Errorf("%s %s is an address in a range: the range is %s", flag, cidr, network)
	}
	if size, _ := network.Mask.Size(); size < widest || size > narrowest {
		return nil, fmt.Errorf("%s %s does not have a usable size: give one from /%d to /%d", flag, cidr, widest, narrowest)
	}
	return network, nil
}

// checkOutside keeps a machine's own address out of the ranges, from where
// nothing would reach it.
func checkOutside(address net.IP, ranges ...string) error {
	for _, cidr := range ranges {
		if _, network, err := net.ParseCIDR(cidr); err == nil && network.Contains(address) {
			return fmt.Errorf("this machine's address %s lies in %s, which is for pods or services: set --advertise-address, or --pod-cidr and --service-cidr",
				address, network)
		}
	}
	return nil
}
