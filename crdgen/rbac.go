package crdgen

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AggregatedClusterRoleName is the name of the role that lets Cluster API's own manager work with the kinds.
const AggregatedClusterRoleName = "drover-aggregated-manager"

// AggregatedClusterRole gives Cluster API's manager every kind of the two groups, present and future ones, so that a new
// driver needs no new role. The groups hold nothing but drivers' kinds.
func AggregatedClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{
			Name: AggregatedClusterRoleName,
			Labels: map[string]string{
				"cluster.x-k8s.io/aggregate-to-manager": "true",
				"cluster.x-k8s.io/provider":             "infrastructure-drover",
			},
		},
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
