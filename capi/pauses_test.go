package capi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

// TestEmbedded_wakesWhatWasMadeWhileItsClusterWasPaused has one of each kind that stands alone, with nothing but its Cluster to wake it. Its
// Paused condition tells whether its controller has looked.
func TestEmbedded_wakesWhatWasMadeWhileItsClusterWasPaused(t *testing.T) {
	embedded(t)
	c := testkit.Client(t, newScheme(t))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "c1"}, Spec: clusterv1.ClusterSpec{Paused: new(true),
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	meta := metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "alone", Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name}}
	machine := clusterv1.MachineSpec{ClusterName: cluster.Name, Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "none"}}
	selected := map[string]string{"set": "alone"}
	selector := metav1.LabelSelector{MatchLabels: selected}
	template := clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: selected}, Spec: machine}
	all := map[string]interface {
		client.Object
		conditions.Getter
	}{
		"Machine":    &clusterv1.Machine{ObjectMeta: meta, Spec: machine},
		"MachineSet": &clusterv1.MachineSet{ObjectMeta: meta, Spec: clusterv1.MachineSetSpec{ClusterName: cluster.Name, Replicas: new(int32(0)), Selector: selector, Template: template}},
		"MachineDeployment": &clusterv1.MachineDeployment{ObjectMeta: meta,
			Spec: clusterv1.MachineDeploymentSpec{ClusterName: cluster.Name, Replicas: new(int32(0)), Selector: selector, Template: template}},
		"MachineHealthCheck": &clusterv1.MachineHealthCheck{ObjectMeta: meta, Spec: clusterv1.MachineHealthCheckSpec{ClusterName: cluster.Name, Selector: selector,
			Checks: clusterv1.MachineHealthCheckChecks{NodeStartupTimeoutSeconds: new(int32(600))}}},
	}
	require.NoError(t, c.Create(t.Context(), cluster))
	for kind, obj := range all {
		require.NoError(t, c.Create(t.Context(), obj), kind)
	}
	for _, paused := range []bool{true, false, true} {
		was := cluster.DeepCopy()
		cluster.Spec.Paused = new(paused)
		require.NoError(t, c.Patch(t.Context(), cluster, client.MergeFrom(was)))
		testkit.Eventually(t, patience, func() error {
			for kind, obj := range all {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
					return err
				}
				if got := conditions.Get(obj, clusterv1.PausedCondition); got == nil || (got.Status == metav1.ConditionTrue) != paused {
					return fmt.Errorf("the %s has not seen that its Cluster has paused %t: %+v", kind, paused, got)
				}
			}
			return nil
		})
	}
}
