package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

func TestAggregatedClusterRoleCoversEveryDriver(t *testing.T) {
	role := crdgen.AggregatedClusterRole()
	for _, manager := range []string{"", "kubeadm.controlplane.", "rke2.controlplane."} {
		require.Equal(t, "true", role.Labels[manager+"cluster.x-k8s.io/aggregate-to-manager"])
	}
	require.Len(t, role.Rules, 2)
	for _, rule := range role.Rules {
		require.Equal(t, []string{"rke-machine.cattle.io", "rke-machine-config.cattle.io"}, rule.APIGroups)
	}
	require.Subset(t, role.Rules[0].Verbs, []string{"get", "list", "watch", "create", "update", "patch", "delete"})
}
