package rkecontrolplane_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	for _, none := range []string{"latest", "v1.36", "1.36.3", " v1.36.3", "v1.36.3\x01", "v1.36.3-" + strings.Repeat("x", 250)} { // who is root there says what he likes
		require.Equal(t, "v1.36.4+k3s1", runs(none), "%q", none)
		require.Empty(t, w.obj.Status.Versions)
	}

	machine := w.machineNamed("server")
	machine.Spec.Version = "v1.35.0"
	require.NoError(t, w.Update(t.Context(), machine))
	require.Equal(t, "v1.35.0", runs("v1.36.3+k3s1"))
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "a version is set for the Machine server")
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), "kubectl edit machines.cluster.x-k8s.io server -n")
}

// A Machine that cannot be written, as one that a webhook refuses, keeps neither itself nor another from its plan.
func TestMachineVersions_refused(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.provisioned("worker", 2, "worker")
	w.runs("server", "v1.36.3+k3s1")
	w.r = w.reconciler(testkit.Writes(w.WithWatch, func(write string, do func() error) error {
		if write == "patch *v1beta2.Machine" {
			return errors.New("refused")
		}
		return do()
	}))
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
	require.ErrorContains(t, err, "writing the version of Machine server: refused")
	require.NotNil(t, w.planOf("worker"))
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
