package node

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/localkube/process"
)

// KubeletName is the component's name, verb and log file.
const KubeletName = "kubelet"

// kubelet writes its configuration and says how to run it.
func (n *Node) kubelet() (process.Spec, error) {
	config := n.kubeletConfig()
	dns, err := n.dns()
	if err != nil {
		return process.Spec{}, err
	}
	maps.Copy(config, dns)
	raw, err := yaml.Marshal(config)
	if err != nil {
		return process.Spec{}, fmt.Errorf("encoding kubelet configuration: %w", err)
	}
	if err := n.dir.Write(raw, "kubelet.yaml"); err != nil {
		return process.Spec{}, err
	}
	args := []string{
		KubeletName,
		"--config=" + n.dir.kubeletConfig(),
		"--kubeconfig=" + n.dir.kubeconfig(KubeletName),
		"--root-dir=" + n.dir.Path("kubelet"),
		"--hostname-override=" + n.opts.Name,
		"--node-ip=" + n.address.String(),
	}
	if len(n.opts.Labels) > 0 {
		args = append(args, "--node-labels="+strings.Join(n.opts.Labels, ","))
	}
	for _, extra := range n.opts.KubeletArgs {
		args = append(args, "--"+extra)
	}
	return process.Spec{Name: KubeletName, Path: process.Self, Args: args, Log: n.dir.Log(KubeletName), Restart: true}, nil
}

// kubeletConfig never lets the kubelet delete images or pods for want of disk:
// images that were imported by hand cannot be pulled again.
func (n *Node) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    n.address.String(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": n.cluster.CAFile},
		},
		"authorization":               map[string]any{"mode": "Webhook"},
		"tlsCertFile":                 n.identities.KubeletServing.Cert,
		"tlsPrivateKeyFile":           n.identities.KubeletServing.Key,
		"containerRuntimeEndpoint":    "unix://" + n.dir.containerdSocket(),
		"cgroupDriver":                "cgroupfs",
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"makeIPTablesUtilChains":      false,
		"oomScoreAdj":                 0,
		"healthzPort":                 0,
		"resolvConf":                  n.resolvConf(),
		"podLogsDir":                  n.dir.Path("pod-logs"),
		"volumePluginDir":             n.dir.Path("kubelet-volume-plugins"),
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": map[string]string{
			"memory.available": "50Mi",
			"nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}
}

func (n *Node) resolvConf() string {
	if n.opts.ResolvConf != "" {
		return n.opts.ResolvConf
	}
	return n.dir.Path("resolv.conf")
}

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

// ProxyName is the component's name, verb and log file.
const ProxyName = "kube-proxy"

// proxy writes kube-proxy's configuration and says how to run it.
func (n *Node) proxy() (process.Spec, error) {
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": n.dir.kubeconfig(ProxyName)},
		"hostnameOverride":   n.opts.Name,
		"mode":               "iptables",
		"clusterCIDR":        n.cluster.PodCIDR,
		"detectLocalMode":    "ClusterCIDR",
		"healthzBindAddress": "127.0.0.1:10256",
		"oomScoreAdj":        0,
		// Zero leaves the machine's conntrack limits alone.
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
		"iptables": map[string]any{"minSyncPeriod": "100ms", "syncPeriod": "30s", "localhostNodePorts": false},
	})
	if err != nil {
		return process.Spec{}, fmt.Errorf("encoding kube-proxy configuration: %w", err)
	}
	if err := n.dir.Write(raw, "kube-proxy.yaml"); err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Name:    ProxyName,
		Path:    process.Self,
		Args:    []string{ProxyName, "--config=" + n.dir.proxyConfig()},
		Log:     n.dir.Log(ProxyName),
		Restart: true,
	}, nil
}
