package node

import (
	"fmt"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/localkube/process"
)

// kubelet writes its configuration and says how to run it. It never deletes
// images or pods for want of disk: images that were imported by hand cannot be
// pulled again.
func (n *Node) kubelet() (process.Spec, error) {
	// Pods get no name server, so that no query leaves the machine. Without a name server of the
	// cluster, a kubelet warns on every pod.
	if err := n.Dir.Write([]byte("# localkube: no name server\n"), "resolv.conf"); err != nil {
		return process.Spec{}, err
	}
	config := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    n.Address.String(),
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": n.Files.ClientCA},
		},
		"authorization":               map[string]any{"mode": "Webhook"},
		"tlsCertFile":                 n.Files.Serving.Certificate,
		"tlsPrivateKeyFile":           n.Files.Serving.Key,
		"containerRuntimeEndpoint":    "unix://" + socket(n.Dir),
		"cgroupDriver":                "cgroupfs",
		"clusterDNS":                  []string{"127.0.0.1"},
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"makeIPTablesUtilChains":      false,
		"oomScoreAdj":                 0,
		"healthzPort":                 n.HealthPort,
		"resolvConf":                  n.Dir.Path("resolv.conf"),
		"podLogsDir":                  n.Dir.Path("pod-logs"),
		"volumePluginDir":             n.Dir.Path("kubelet-volume-plugins"),
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": map[string]string{
			"memory.available": "50Mi",
			"nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
	}
	return n.component(kubeletName, config,
		"kubeconfig="+n.Files.Kubelet,
		"root-dir="+n.Dir.Path("kubelet"),
		"cert-dir="+n.Dir.Path("kubelet-pki"),
		"hostname-override="+n.Name,
		"node-ip="+n.Address.String(),
	)
}

// proxy writes kube-proxy's configuration and says how to run it.
func (n *Node) proxy() (process.Spec, error) {
	return n.component(proxyName, map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": n.Files.Proxy},
		"hostnameOverride":   n.Name,
		"mode":               "iptables",
		"clusterCIDR":        n.Pods,
		"detectLocalMode":    "ClusterCIDR",
		"healthzBindAddress": "127.0.0.1:" + strconv.Itoa(proxyPort),
		"oomScoreAdj":        0,
		// Zero leaves the machine's conntrack limits alone.
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
		"iptables": map[string]any{"minSyncPeriod": "100ms", "syncPeriod": "30s", "localhostNodePorts": false},
	})
}

func (n *Node) component(name string, config map[string]any, args ...string) (process.Spec, error) {
	raw, err := yaml.Marshal(config)
	if err != nil {
		return process.Spec{}, fmt.Errorf("encoding the configuration of %s: %w", name, err)
	}
	return process.Spec{
		Name: name, Path: process.Self,
		Args: append([]string{name}, process.Flags(append(args, "config="+n.Dir.Path(name+".yaml")), n.Arguments[name])...),
		Log:  n.Dir.Log(name), Restart: true,
	}, n.Dir.Write(raw, name+".yaml")
}
