package rkecontrolplane

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Versions have one order, also those that differ in their build alone: in another at each look the status would be written again and again.
func TestVersions_inOneOrder(t *testing.T) {
	s := &scope{}
	for _, version := range []string{"v1.36.3+k3s2", "v1.36.10+k3s1", "v1.36.3+k3s1", "v1.36.3+k3s2", "latest"} {
		s.members = append(s.members, member{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{rkev1.ControlPlaneRoleLabel: "true"}},
			Status: clusterv1.MachineStatus{NodeInfo: &corev1.NodeSystemInfo{KubeletVersion: version}}}})
	}
	for range 50 {
		require.Equal(t, []clusterv1.StatusVersion{{Version: "v1.36.3+k3s1", Replicas: 1}, {Version: "v1.36.3+k3s2", Replicas: 2}, {Version: "v1.36.10+k3s1", Replicas: 1}}, s.versions())
	}
}
