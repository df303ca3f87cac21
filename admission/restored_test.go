package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/testkit"
)

// TestRestored: a CAPI Cluster that a provisioning Cluster rendered is restored paused, because Cluster API
// creates machines in place of those that are not restored yet.
func TestRestored(t *testing.T) {
	namespace := testkit.Namespace(t)
	of := func(name string, edit func(*unstructured.Unstructured)) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": "rke.cattle.io", "kind": "RKECluster", "name": name}}}}
		obj.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
		obj.SetNamespace(namespace)
		obj.SetName(name)
		obj.SetAnnotations(map[string]string{provv1.PoolsAnnotation: "server,workers"})
		if edit != nil {
			edit(obj)
		}
		return obj
	}
	paused := func(obj *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(obj.Object, true, "spec", "paused"))
	}
	const says = "this Cluster comes from a backup: set spec.paused: true in the file, restore all objects of the Cluster, and then resume it"
	c := withClusterAPI(t, of("before", paused))
	awaitRefusal(t, func() error { return c.Create(t.Context(), of("running", nil), client.DryRunAll) })
	require.ErrorContains(t, c.Create(t.Context(), of("running", nil)), says)
	require.NoError(t, c.Create(t.Context(), of("paused", paused)))
	require.NoError(t, c.Create(t.Context(), of("users", func(obj *unstructured.Unstructured) { obj.SetAnnotations(nil) })))
	require.NoError(t, c.Patch(t.Context(), of("rendered", nil), client.Apply, client.FieldOwner(provv1.FieldOwner)), "Drover creates it") //nolint:staticcheck // the object is unstructured
	resume := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":false}}`))
	require.NoError(t, c.Patch(t.Context(), of("paused", nil), resume))
}
