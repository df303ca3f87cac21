package agent

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/api/plan"
)

// containerNetworks are prefixes of interfaces that container networks create. Their addresses are
// not the server's own.
var containerNetworks = []string{"cali", "cilium", "cni", "docker", "flannel", "kube-ipvs", "lxc", "nodelocaldns", "tunl", "veth", "vxlan.calico"}

// Addresses returns the server's own addresses, sorted. Loopback and link-local addresses are left
// out. It returns none if they cannot be read, or if there are too many to report.
func Addresses() []string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var found []string
	for _, one := range interfaces {
		if one.Flags&net.FlagUp == 0 || slices.ContainsFunc(containerNetworks, func(prefix string) bool { return strings.HasPrefix(one.Name, prefix) }) {
			continue
		}
		addresses, err := one.Addrs()
		if err != nil {
			return nil
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
				found = append(found, prefix.Addr().Unmap().String())
			}
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) > plan.MaxAddresses {
		return nil
	}
	return found
}

// settled is the time for which addresses must stay the same before they are reported. While a server
// starts, they come one after the other.
const settled = 30 * time.Second

// addresses decides which addresses of the server the agent reports.
type addresses struct {
	// seen are the addresses of the last look, and since is the time of their last change.
	seen  []string
	since time.Time
	// told are the addresses in the report.
	told []string
}

// look returns the addresses to report: the addresses that were seen for some time. Until then it
// returns the addresses in the earlier report.
func (a *addresses) look(now time.Time, found, reported []string) []string {
	if a.since.IsZero() {
		a.told = reported
	}
	if a.since.IsZero() || !slices.Equal(a.seen, found) {
		a.seen, a.since = found, now
	}
	if now.Sub(a.since) >= settled {
		a.told = a.seen
	}
	return a.told
}
