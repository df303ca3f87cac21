package admission_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

// A pool has at most 1000 machines, because Cluster API creates all of them before it reads the pool again.
func TestReplicas(t *testing.T) {
	namespace := testkit.Namespace(t)
	with := func(obj *unstructured.Unstructured, replicas int64) *unstructured.Unstructured {
		obj = obj.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(obj.Object, replicas, "spec", "replicas"))
		return obj
	}
	of := func(kind string) *unstructured.Unstructured { return pool(namespace, kind, "RKEBootstrapTemplate", "") }
	const says = "spec.replicas is more than 1000: Cluster API creates the machines of a MachineSet in one loop, and would not stop after the number is reduced. Use several MachineDeployments"
	old := with(of("MachineSet"), math.MaxInt32)
	c := withClusterAPI(t, old)
	awaitRefusal(t, func() error { return c.Create(t.Context(), with(of("MachineSet"), 1001), client.DryRunAll) })
	scale := func(obj client.Object, replicas int32) error {
		return c.SubResource("scale").Update(t.Context(), obj, client.WithSubResourceBody(&autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: obj.GetName()}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}))
	}
	for _, kind := range []string{"MachineSet", "MachineDeployment"} {
		t.Run(kind, func(t *testing.T) {
			require.ErrorContains(t, c.Create(t.Context(), with(of(kind), 1001)), says)
			require.NoError(t, c.Create(t.Context(), with(of(kind), 1000)))
			obj := of(kind)
			require.NoError(t, c.Create(t.Context(), obj), "without a number")
			require.ErrorContains(t, c.Update(t.Context(), with(obj, math.MaxInt32)), says)
			require.ErrorContains(t, scale(obj, 1001), says)
			require.NoError(t, scale(obj, 1000))
			require.NoError(t, scale(obj, 0))
		})
	}
	// A pool that is larger already can be edited, and become smaller.
	old.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, c.Update(t.Context(), old))
	require.NoError(t, scale(old, 5000))
	require.ErrorContains(t, scale(old, 5001), says)
	require.NoError(t, scale(old, 0))
}
