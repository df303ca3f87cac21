package node

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/localkube/process"
)

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
