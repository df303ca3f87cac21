package rkecontrolplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// Cluster API compares a Machine's version with its kubelet's; it is the one that runs, also after an upgrade, unless a user wrote another.
func TestMachineVersions(t *testing.T) {
	w := newWorld(t)
	w.up()
	runs := func(version string) string {
		w.runs("server", version)
		w.quiet()
		return w.machineNamed("server").Spec.Version
	}
	require.Empty(t, w.machineNamed("server").Spec.Version, "nobody knows yet")
	require.Equal(t, "v1.36.2+k3s1", runs("v1.36.2+k3s1"))
	require.Equal(t, "v1.36.3+k3s1", runs("v1.36.3+k3s1"))
	restored := w.machineNamed("server") // by a tool that has its own name for all fields
	require.NoError(t, w.Delete(t.Context(), restored))
	fresh := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: restored.Namespace, Name: restored.Name, Labels: restored.Labels, Annotations: restored.Annotations}, Spec: restored.Spec}
	require.NoError(t, w.Create(t.Context(), fresh))
	require.Equal(t, "v1.36.4+k3s1", runs("v1.36.4+k3s1"))
	testkit.ExpectNoCondition(t, w.obj, rkev1.WarningsCondition)

	machine := w.machineNamed("server")
	machine.Spec.Version = "v1.35.0"
	require.NoError(t, w.Update(t.Context(), machine))
	require.Equal(t, "v1.35.0", runs("v1.36.3+k3s1"))
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "a version is set for the Machine server")
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "kubectl edit machines.cluster.x-k8s.io server -n")
}

// Cluster API drains and deletes the Nodes of a cluster only where it knows a Machine of the control plane.
func TestMachineControlPlaneLabel(t *testing.T) {
	w := newWorld(t)
	of := func(kind string, machine *clusterv1.Machine) {
		machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind(kind))}
		require.NoError(t, w.Update(t.Context(), machine))
	}
	of("MachineSet", w.machine("server", "etcd", "control-plane"))
	of("MachineSet", w.machine("worker", "worker"))
	w.machine("alone", "control-plane")
	w.quiet()
	has := func(name string) bool {
		_, found := w.machineNamed(name).Labels[clusterv1.MachineControlPlaneLabel]
		return found
	}
	require.True(t, has("server"))
	require.False(t, has("worker"))
	require.False(t, has("alone"), "nobody would delete it with its cluster")
}
