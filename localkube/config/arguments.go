package config

import (
	"fmt"
	"maps"
	"slices"
)

// The arguments of k3s, by role. Those under obeyed have the same meaning as in k3s. localkube does
// not implement the others: it logs and ignores them. A name that is in neither list is rejected.
var (
	obeyed = map[Role][]string{
		both: {"data-dir", "kube-proxy-arg", "kubelet-arg", "node-external-ip", "node-ip", "node-label", "node-name", "node-taint", "private-registry",
			"server", "token", "token-file"},
		Server: {"advertise-address", "agent-token", "agent-token-file", "cluster-cidr", "cluster-init", "kube-apiserver-arg",
			"kube-controller-arg", "kube-controller-manager-arg", "kube-scheduler-arg", "service-cidr", "tls-san", "write-kubeconfig"},
	}
	passedOver = map[Role][]string{
		both: {"airgap-extra-registry", "alsologtostderr", "bind-address", "debug", "default-runtime", "disable-default-registry-endpoint", "enable-pprof",
			"flannel-cni-conf", "flannel-conf", "flannel-iface", "lb-server-port", "log", "node-external-dns", "node-internal-dns", "nonroot-devices",
			"pause-image", "prefer-bundled-bin", "protect-kernel-defaults", "resolv-conf", "selinux", "snapshotter", "v", "vmodule"},
		Server: {"cluster-dns", "cluster-domain", "default-local-storage-path", "disable", "disable-cloud-controller", "disable-helm-controller",
			"disable-kube-proxy", "disable-network-policy", "egress-selector-mode", "embedded-registry", "etcd-arg", "etcd-disable-snapshots", "etcd-expose-metrics",
			"etcd-s3", "etcd-s3-access-key", "etcd-s3-bucket", "etcd-s3-bucket-lookup-type", "etcd-s3-config-secret", "etcd-s3-endpoint",
			"etcd-s3-endpoint-ca", "etcd-s3-folder", "etcd-s3-insecure", "etcd-s3-proxy", "etcd-s3-region", "etcd-s3-retention", "etcd-s3-secret-key",
			"etcd-s3-session-token", "etcd-s3-skip-ssl-verify", "etcd-s3-timeout", "etcd-snapshot-compress", "etcd-snapshot-dir", "etcd-snapshot-name",
			"etcd-snapshot-reconcile-interval", "etcd-snapshot-retention", "etcd-snapshot-schedule-cron", "flannel-backend", "flannel-external-ip",
			"flannel-ipv6-masq", "helm-controller-arg", "helm-job-image", "kube-cloud-controller-arg", "kube-cloud-controller-manager-arg",
			"secrets-encryption", "service-node-port-range", "servicelb-namespace", "supervisor-metrics", "system-default-registry", "tls-san-security",
			"write-kubeconfig-group", "write-kubeconfig-mode"},
		Agent: {"disable-apiserver-lb"},
	}
)

// check rejects unknown arguments of the role, and returns the ignored ones.
func (v values) check(role Role) (unused []string, err error) {
	has := func(table map[Role][]string, name string) bool {
		return slices.Contains(table[both], name) || slices.Contains(table[role], name)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch {
		case has(obeyed, name):
		case has(passedOver, name):
			unused = append(unused, name)
		default:
			return nil, fmt.Errorf("%s is not an argument of k3s %s, or localkube does not support it", name, role)
		}
	}
	return unused, nil
}
