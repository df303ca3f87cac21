package node

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// maxNameServers is what a pod's resolver asks at most; the kubelet warns of more.
const maxNameServers = 3

// noNameServer is what resolvers ask when their configuration names nobody.
const noNameServer = "127.0.0.1"

// dns is the kubelet's part about names. There is no cluster DNS, and a kubelet
// without one warns on every pod and falls back to the resolver configuration.
// So that configuration's name servers are given as the cluster's, which is what
// pods got anyway. No cluster domain goes with them: nobody answers for it, and
// the names of Services are not to be asked of servers elsewhere.
func (n *Node) dns() (map[string]any, error) {
	if slices.ContainsFunc(n.opts.KubeletArgs, func(arg string) bool { return strings.HasPrefix(arg, "cluster-dns=") }) {
		return map[string]any{"clusterDomain": "cluster.local"}, nil
	}
	servers := []string{noNameServer}
	if n.opts.ResolvConf != "" {
		raw, err := os.ReadFile(n.opts.ResolvConf)
		if err != nil {
			return nil, fmt.Errorf("reading resolver configuration for pods: %w", err)
		}
		if found := nameServers(string(raw)); len(found) > 0 {
			servers = found
		}
	}
	return map[string]any{"clusterDNS": servers}, nil
}

// nameServers lists the addresses a resolver configuration names, in its order.
// Addresses with a zone are left out: the zone means nothing inside a pod.
func nameServers(conf string) []string {
	var servers []string
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(servers) == maxNameServers {
			continue
		}
		if ip := net.ParseIP(fields[1]); ip != nil && !slices.Contains(servers, ip.String()) {
			servers = append(servers, ip.String())
		}
	}
	return servers
}
