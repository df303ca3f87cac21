package provisioningcluster_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// backedUpKinds are the kinds of a backup.
var backedUpKinds = append(slices.Clone(renderedKinds), clusterv1.GroupVersion.WithKind("MachineSet"), provv1.GroupVersion.WithKind("Cluster"))

// backup returns the objects of the namespace as docs/dataflow.md says: without owner references, and as a
// file of kubectl has them, without what the API server sets.
func (w *world) backup(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var saved []*unstructured.Unstructured
	for _, obj := range w.all(t) {
		metadata := map[string]any{"namespace": obj.GetNamespace(), "name": obj.GetName()}
		for _, field := range []string{"labels", "annotations"} {
			if values, found, _ := unstructured.NestedMap(obj.Object, "metadata", field); found {
				metadata[field] = values
			}
		}
		obj.Object["metadata"] = metadata
		delete(obj.Object, "status")
		saved = append(saved, obj)
	}
	return saved
}

// all are the objects of the namespace.
func (w *world) all(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, gvk := range backedUpKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
		require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(w.cluster.Namespace)))
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}

// names are the kinds and names of objects.
func names(objs []*unstructured.Unstructured) []string {
	var all []string
	for _, obj := range objs {
		all = append(all, obj.GetKind()+"."+obj.GroupVersionKind().Group+"/"+obj.GetName())
	}
	slices.Sort(all)
	return all
}

// loseAll deletes the objects of the namespace, and nothing that depends on them.
func (w *world) loseAll(t *testing.T) {
	t.Helper()
	for _, obj := range w.all(t) {
		if len(obj.GetFinalizers()) > 0 {
			obj.SetFinalizers(nil)
			require.NoError(t, w.client.Update(t.Context(), obj))
		}
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), obj)))
	}
	require.Empty(t, w.all(t))
}

// runningWorld is a world with MachineSets, with a replacement that waits for an approval, and with a change
// of the server's Config that is held.
func runningWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval })
	w.reconcile(t)
	w.reconcile(t)
	for name, deployment := range w.deployments(t) {
		require.NoError(t, w.client.Create(t.Context(), &clusterv1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name + "-x7k2p", Labels: deployment.Spec.Template.Labels},
			Spec:       clusterv1.MachineSetSpec{ClusterName: "one", Replicas: deployment.Spec.Replicas, Selector: deployment.Spec.Selector, Template: deployment.Spec.Template}}))
	}
	for _, name := range []string{"server", "workers"} {
		config := testkit.ExpectExists(t, w.client, w.config(name, ""))
		config.Object["size"] = "s-8vcpu-16gb"
		require.NoError(t, w.client.Update(t.Context(), config))
	}
	w.reconcile(t)
	require.NotNil(t, w.cluster.Status.PendingReplacement)
	return w
}

// specOf are the parts of the MachineDeployments for which Cluster API makes, replaces or deletes machines.
func (w *world) specOf(t *testing.T) map[string]clusterv1.MachineDeploymentSpec {
	t.Helper()
	specs := map[string]clusterv1.MachineDeploymentSpec{}
	for name, deployment := range w.deployments(t) {
		specs[name] = deployment.Spec
	}
	return specs
}

// TestReconcile_rawRestore: after a restore of all objects in any order, with a reconcile after each, the
// Cluster has the objects that it had: no other CAPI Cluster, MachineDeployment or template.
func TestReconcile_rawRestore(t *testing.T) {
	w := runningWorld(t)
	wanted, specs, pending := names(w.all(t)), w.specOf(t), *w.cluster.Status.PendingReplacement
	saved := w.backup(t)
	for seed := range uint64(6) {
		w.loseAll(t)
		random := rand.New(rand.NewPCG(seed, 5))
		random.Shuffle(len(saved), func(a, b int) { saved[a], saved[b] = saved[b], saved[a] })
		for i, obj := range saved {
			require.NoError(t, w.client.Create(t.Context(), obj.DeepCopy()), "seed %d: Drover created %s before its restore", seed, obj.GetName())
			if seed > 0 { // at first, the manager does not run during the restore
				testkit.ExpectReconciled(t, w.r, w.cluster)
			}
			require.Len(t, w.all(t), i+1, "seed %d, after %s %s", seed, obj.GetKind(), obj.GetName())
		}
		for range 3 {
			w.reconcile(t)
		}
		require.Equal(t, wanted, names(w.all(t)), "seed %d", seed)
		require.Equal(t, specs, w.specOf(t), "seed %d", seed)
		testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
		testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason)
		require.Equal(t, pending.ID, w.cluster.Status.PendingReplacement.ID, "an approval stays valid")
		require.Equal(t, w.cluster.UID, metav1.GetControllerOf(testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})).UID)
		require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
	}
}

// TestReconcile_lostObjects: after a restore of the Cluster and its Configs alone, nothing is created,
// because the servers may be alive. Nothing is created either if a MachineDeployment stays lost, until the
// user says so.
func TestReconcile_lostObjects(t *testing.T) {
	w := runningWorld(t)
	saved := w.backup(t)
	w.loseAll(t)
	for _, obj := range saved {
		if obj.GroupVersionKind().Group == provv1.GroupVersion.Group || obj.GetKind() == "DigitaloceanConfig" {
			require.NoError(t, w.client.Create(t.Context(), obj.DeepCopy()))
		}
	}
	for range 3 {
		w.reconcile(t)
		require.Len(t, w.all(t), 3)
		missing := testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.CAPIClusterMissingReason)
		require.Contains(t, missing.Message, provv1.RenderedAnnotation)
	}
	for _, obj := range saved {
		if obj.GetKind() != "MachineSet" && obj.GetName() != "one-workers" {
			require.NoError(t, client.IgnoreAlreadyExists(w.client.Create(t.Context(), obj.DeepCopy())))
		}
	}
	present := names(w.all(t))
	for range 3 {
		w.reconcile(t)
		require.Equal(t, present, names(w.all(t)))
		waits := testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.RestoreIncompleteReason)
		require.Contains(t, waits.Message, "MachineDeployment one-workers")
	}
	capi := testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	delete(capi.Annotations, provv1.PoolsAnnotation)
	require.NoError(t, w.client.Update(t.Context(), capi))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.Equal(t, "server,workers", testkit.ExpectExists(t, w.client, capi).Annotations[provv1.PoolsAnnotation])
	require.Equal(t, rkev1.MachineGroupVersion.Group, w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.APIGroup)
}
