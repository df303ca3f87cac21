package server

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckRanges(t *testing.T) {
	const pods, services = "198.19.0.0/17", "198.19.128.0/17"
	for name, tc := range map[string]struct{ pods, services, want string }{
		"nothing known":             {"", "", ""},
		"defaults":                  {DefaultPodCIDR, DefaultServiceCIDR, ""},
		"one known":                 {pods, "", ""},
		"the other known":           {"", services, ""},
		"widest":                    {"10.0.0.0/8", "172.16.0.0/12", ""},
		"narrowest":                 {"198.19.0.0/24", "198.19.128.0/30", ""},
		"next to each other":        {"198.19.0.0/24", "198.19.1.0/24", ""},
		"no range":                  {"198.19.0.0", "", "reading --pod-cidr: invalid CIDR address: 198.19.0.0"},
		"a word":                    {"", "services", "reading --service-cidr: invalid CIDR address: services"},
		"two of them":               {"a", "b", "reading --pod-cidr: invalid CIDR address: a\nreading --service-cidr: invalid CIDR address: b"},
		"several at once":           {pods + ",fd00::/64", "", "reading --pod-cidr: invalid CIDR address: 198.19.0.0/17,fd00::/64"},
		"IPv6 pods":                 {"fd00::/64", "", "--pod-cidr fd00::/64 is not IPv4, which is all that is supported"},
		"IPv6 services":             {"", "fd00::/108", "--service-cidr fd00::/108 is not IPv4, which is all that is supported"},
		"an address in a range":     {"198.19.0.7/17", "", "--pod-cidr 198.19.0.7/17 is an address in a range: the range is 198.19.0.0/17"},
		"pods for too many nodes":   {"0.0.0.0/0", "", "--pod-cidr 0.0.0.0/0 does not have a usable size: give one from /8 to /24"},
		"pods for no node":          {"198.19.0.0/25", "", "--pod-cidr 198.19.0.0/25 does not have a usable size: give one from /8 to /24"},
		"more services than fit":    {"", "10.0.0.0/11", "--service-cidr 10.0.0.0/11 does not have a usable size: give one from /12 to /32"},
		"no room for a Service":     {"", "198.19.128.0/32", "reading service range: 198.19.128.0/32 has no room for a Service"},
		"the same":                  {pods, pods, "pods (198.19.0.0/17) and services (198.19.0.0/17) must not share addresses: set --pod-cidr and --service-cidr"},
		"services among pods":       {"198.19.0.0/16", services, "pods (198.19.0.0/16) and services (198.19.128.0/17) must not share addresses: set --pod-cidr and --service-cidr"},
		"pods among services":       {"198.19.4.0/24", "198.19.0.0/16", "pods (198.19.4.0/24) and services (198.19.0.0/16) must not share addresses: set --pod-cidr and --service-cidr"},
		"own pods, usual services":  {DefaultServiceCIDR, DefaultServiceCIDR, "pods (198.19.128.0/17) and services (198.19.128.0/17) must not share addresses: set --pod-cidr and --service-cidr"},
		"the last address is split": {"198.19.255.0/24", "198.19.255.255/32", "reading service range: 198.19.255.255/32 has no room for a Service"},
	} {
		t.Run(name, func(t *testing.T) { requireText(t, tc.want, checkRanges(tc.pods, tc.services)) })
	}
}

func requireText(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.EqualError(t, err, want)
}

func TestCheckOutside(t *testing.T) {
	for address, want := range map[string]string{
		"198.18.0.1":           "",
		"127.0.0.1":            "",
		"::1":                  "",
		"198.19.0.1":           "this machine's address 198.19.0.1 lies in 198.19.0.0/17, which is for pods or services: set --advertise-address, or --pod-cidr and --service-cidr",
		"198.19.200.1":         "this machine's address 198.19.200.1 lies in 198.19.128.0/17, which is for pods or services: set --advertise-address, or --pod-cidr and --service-cidr",
		"::ffff:198.19.255.25": "this machine's address 198.19.255.25 lies in 198.19.128.0/17, which is for pods or services: set --advertise-address, or --pod-cidr and --service-cidr",
	} {
		requireText(t, want, checkOutside(net.ParseIP(address), DefaultPodCIDR, DefaultServiceCIDR, "unreadable"))
	}
}

// What is let in is let in for ever: it must be usable, and disjoint.
func TestCheckRanges_keeps_what_was_checked(t *testing.T) {
	check := func(pods, services string) {
		if checkRanges(pods, services) != nil || pods == "" || services == "" {
			return
		}
		_, p, err := net.ParseCIDR(pods)
		require.NoError(t, err)
		_, s, err := net.ParseCIDR(services)
		require.NoError(t, err)
		require.Equal(t, pods, p.String(), "what is kept is what was checked")
		require.False(t, p.Contains(s.IP) || s.Contains(p.IP))
		size, bits := p.Mask.Size()
		require.Equal(t, 32, bits)
		require.LessOrEqual(t, size, 24)
	}
	check("198.19.0.0/17", "198.19.128.0/17")
	check("10.0.0.0/8", "10.0.0.0/8")
	check("::/0", "1.2.3.4/33")
}
