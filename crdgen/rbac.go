package crdgen

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AggregatedClusterRoleName is the name of the role that lets Cluster API's own manager work with the kinds.
const AggregatedClusterRoleName = "drover-aggregated-manager"

// aggregations are the labels by which managers gather what they may do: Cluster API's core, and the control plane providers that clone our
// templates and aggregate under a name of their own. Sources: config/rbac/aggregated_role.yaml of core and controlplane/kubeadm in
// sigs.k8s.io/cluster-api, and controlplane/config/rbac/aggregated_role.yaml in rancher/cluster-api-provider-rke2. Those for k3s, Talos and Canonical
// Kubernetes aggregate nothing, see docs/with-kubeadm.md.
var aggregations = []string{
	"cluster.x-k8s.io/aggregate-to-manager",
	"kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager",
	"rke2.controlplane.cluster.x-k8s.io/aggregate-to-manager",
}

// AggregatedClusterRole gives Cluster API's managers every kind of the two groups, present and future ones, so that a new
// driver needs no new role. The groups hold nothing but drivers' kinds.
func AggregatedClusterRole() *rbacv1.ClusterRole {
	labels := map[string]string{"cluster.x-k8s.io/provider": "infrastructure-drover"}
	for _, label := range aggregations {
		labels[label] = "true"
	}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: AggregatedClusterRoleName, Labels: labels},
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{MachineGroup, ConfigGroup},
				Resources: []string{"*"},
				Verbs:     []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			},
			{
				APIGroups: []string{MachineGroup, ConfigGroup},
				Resources: []string{"*/status", "*/finalizers"},
				Verbs:     []string{"get", "update", "patch"},
			},
		},
	}
}
