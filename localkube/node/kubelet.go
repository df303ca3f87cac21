package node

import (
	"fmt"
	"maps"
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
