package provisioningcluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/testkit"
)

// beside adds another Cluster to the namespace, whose pools have these names and one Config.
func (w *world) beside(t *testing.T, name string, pools ...string) *world {
	t.Helper()
	other := &world{client: w.client, r: w.r, cluster: &provv1.Cluster{ObjectMeta: w.named(name), Spec: provv1.ClusterSpec{
		CloudCredentialSecretName: "digitalocean", KubernetesVersion: "v1.36.3+k3s1", RKEConfig: &provv1.RKEConfig{}}}}
	config := name[:min(len(name), 40)] + "-config"
	for i, pool := range pools {
		other.cluster.Spec.RKEConfig.MachinePools = append(other.cluster.Spec.RKEConfig.MachinePools, provv1.MachinePool{
			Name: pool, EtcdRole: i == 0, ControlPlaneRole: i == 0, WorkerRole: i > 0, MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: config}})
	}
	require.NoError(t, w.client.Create(t.Context(), w.config(config, "s-"+name[:1])))
	require.NoError(t, w.client.Create(t.Context(), other.cluster))
	return other
}

// TestReconcile_namespaces: Clusters of one name in two namespaces do not touch each other.
func TestReconcile_namespaces(t *testing.T) {
	one, other := newWorld(t, nil), newWorld(t, nil)
	one.reconcile(t)
	other.reconcile(t)
	before := other.machinesOf(t, "DigitaloceanMachineTemplate")
	require.Len(t, before, 4)
	one.cluster.Spec.RKEConfig.MachinePools = one.cluster.Spec.RKEConfig.MachinePools[:1]
	require.NoError(t, one.client.Update(t.Context(), one.cluster))
	one.reconcile(t)
	one.reconcile(t)
	require.Len(t, one.deployments(t), 1)
	require.Equal(t, before, other.machinesOf(t, "DigitaloceanMachineTemplate"))
	other.reconcile(t)
	require.Zero(t, other.writes(t, func() { other.reconcile(t) }))
	require.NoError(t, one.client.Delete(t.Context(), one.cluster))
	testkit.ExpectReconciled(t, one.r, one.cluster)
	testkit.ExpectExists(t, other.client, &clusterv1.Cluster{ObjectMeta: other.named("one")})
	require.Equal(t, before, other.machinesOf(t, "DigitaloceanMachineTemplate"))
}

// TestReconcile_longNames: names of 63 characters give objects that the API server accepts.
func TestReconcile_longNames(t *testing.T) {
	w := newWorld(t, nil).beside(t, strings.Repeat("c", 63), strings.Repeat("s", 63), strings.Repeat("w", 63), strings.Repeat("w", 62)+"x")
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.Len(t, w.deployments(t), 3)
	for name, deployment := range w.deployments(t) {
		require.Len(t, name, 63)
		require.Equal(t, name, provisioning.Name(w.cluster.Name, deployment.Labels[rkev1.MachinePoolLabel]))
	}
	require.Len(t, w.machinesOf(t, "DigitaloceanMachineTemplate"), 6)
	w.reconcile(t)
	require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
}

// TestReconcile_dashes: a Cluster a with a pool b-c and a Cluster a-b with a pool c need one name. The first
// gets it, and the second reports the name and changes nothing of the first.
func TestReconcile_dashes(t *testing.T) {
	for _, sizes := range []string{"equal Configs", "other Configs"} {
		t.Run(sizes, func(t *testing.T) {
			base := newWorld(t, nil)
			first, second := base.beside(t, "a", "server", "b-c"), base.beside(t, "a-b", "server", "c", "d")
			if sizes == "other Configs" {
				config := testkit.ExpectExists(t, base.client, base.config("a-b-config", ""))
				config.Object["size"] = "another"
				require.NoError(t, base.client.Update(t.Context(), config))
			}
			first.reconcile(t)
			first.reconcile(t)
			before := first.deployment(t, "a-b-c")
			for range 3 {
				second.reconcile(t)
				taken := testkit.ExpectCondition(t, second.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
				require.Contains(t, taken.Message, "its owner is Cluster a, and servers of another Cluster may depend on it\n* Use another name")
				testkit.ExpectCondition(t, second.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.NameTakenReason)
			}
			require.Zero(t, first.writes(t, func() { first.reconcile(t) }))
			require.Equal(t, before, first.deployment(t, "a-b-c"))

			// The second Cluster renames its pool, and both go on.
			second.cluster.Spec.RKEConfig.MachinePools[1].Name = "other"
			require.NoError(t, base.client.Update(t.Context(), second.cluster))
			second.reconcile(t)
			second.reconcile(t)
			testkit.ExpectCondition(t, second.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
			require.Equal(t, "a-b", second.deployment(t, "a-b-other").Spec.ClusterName)
			require.Equal(t, before, first.deployment(t, "a-b-c"))
		})
	}
}

// TestReconcile_race: an edit of a user at any moment of a reconcile is neither lost nor mixed with the
// earlier specification.
func TestReconcile_race(t *testing.T) {
	for at := range 12 {
		w := newWorld(t, nil)
		writes := 0
		w.r = provisioningcluster.New(provisioningcluster.Options{Reader: w.client, Client: testkit.Writes(w.client, func(_ string, do func() error) error {
			if writes++; writes == at+1 {
				edited := testkit.ExpectExists(t, w.client, &provv1.Cluster{ObjectMeta: w.named("one")})
				edited.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(5))
				edited.Annotations = map[string]string{"note": "of a user", provv1.RenderedAnnotation: edited.Annotations[provv1.RenderedAnnotation]}
				require.NoError(t, w.client.Update(t.Context(), edited))
			}
			return do()
		})})
		for range 4 { // a conflict is tried again
			_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
			require.NoError(t, err)
		}
		testkit.ExpectExists(t, w.client, w.cluster)
		require.Equal(t, "of a user", w.cluster.Annotations["note"], "write %d of %d", at, writes)
		require.Equal(t, "one", w.cluster.Annotations[provv1.RenderedAnnotation], "write %d", at)
		require.Equal(t, int32(5), *w.cluster.Spec.RKEConfig.MachinePools[1].Quantity)
		require.Equal(t, int32(5), *w.deployment(t, "one-workers").Spec.Replicas)
		require.Equal(t, w.cluster.Generation, w.cluster.Status.ObservedGeneration)
		require.Len(t, w.machinesOf(t, "DigitaloceanMachineTemplate"), 4)
		if writes <= at {
			break
		}
	}
}

// TestReconcile_twoUsers: of two users who edit one version of a Cluster, one gets a conflict.
func TestReconcile_twoUsers(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	first, second := w.cluster.DeepCopy(), w.cluster.DeepCopy()
	first.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(3))
	second.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(7))
	require.NoError(t, w.client.Update(t.Context(), first))
	require.True(t, apierrors.IsConflict(w.client.Update(t.Context(), second)))
	w.reconcile(t)
	require.Equal(t, int32(3), *w.deployment(t, "one-workers").Spec.Replicas)
	// The report of a reconcile is no edit for which a user gets a conflict with an older specification.
	require.Equal(t, first.Generation, w.cluster.Generation)
}

// TestReconcile_recreated: a Cluster that is created while objects of an earlier one of its name still
// exist waits for their end, and takes over nothing.
func TestReconcile_recreated(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	earlier := testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	earlier.Finalizers = []string{"test/held"}
	require.NoError(t, w.client.Update(t.Context(), earlier))
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	w.reconcile(t)
	// While the finalizer holds the earlier Cluster, another of its name cannot be created. The edit of
	// the deleted one changes nothing either.
	again := &provv1.Cluster{ObjectMeta: w.named("one"), Spec: w.cluster.Spec}
	require.True(t, apierrors.IsAlreadyExists(w.client.Create(t.Context(), again)))
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(9))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.Equal(t, int32(2), *w.deployment(t, "one-workers").Spec.Replicas)

	// A user removes the finalizer by hand.
	w.cluster.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	testkit.ExpectNotFound(t, w.client, &provv1.Cluster{ObjectMeta: w.named("one")})
	require.NoError(t, w.client.Create(t.Context(), again))
	w.cluster = again
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.DeletingReason)
	require.NotEqual(t, w.cluster.UID, metav1.GetControllerOf(testkit.ExpectExists(t, w.client, earlier)).UID)
	require.Empty(t, w.cluster.Annotations[provv1.RenderedAnnotation])

	// The earlier CAPI Cluster is gone, and the garbage collector has not deleted the rest yet.
	earlier.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), earlier))
	for range 2 {
		w.reconcile(t)
		taken := testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
		require.Contains(t, taken.Message, "it is from an earlier Cluster of this name")
	}
	require.Equal(t, int32(2), *w.deployment(t, "one-workers").Spec.Replicas)

	w.collect(t)
	w.reconcile(t)
	w.reconcile(t)
	// The earlier Configs are gone with the earlier Cluster; their pools wait for new ones.
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigMissingReason)
	for _, name := range []string{"server", "workers"} {
		require.NoError(t, w.client.Create(t.Context(), w.config(name, "s-2vcpu-4gb")))
	}
	w.reconcile(t)
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.Len(t, w.machinesOf(t, "DigitaloceanMachineTemplate"), 4)
}

// collect plays the garbage collector: it deletes the objects whose owner is gone.
func (w *world) collect(t *testing.T) {
	t.Helper()
	for _, gvk := range renderedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(w.cluster.Namespace)))
		for i := range list.Items {
			for _, owner := range list.Items[i].GetOwnerReferences() {
				if !w.exists(t, owner) {
					require.NoError(t, w.client.Delete(t.Context(), &list.Items[i]))
				}
			}
		}
	}
}

// renderedKinds are the kinds of rendered objects and Configs, the CAPI Cluster first.
var renderedKinds = append(append(gvks(clusterv1.GroupVersion, "Cluster", "MachineDeployment", "MachineHealthCheck"),
	gvks(rkev1.GroupVersion, "RKECluster", "RKEControlPlane", "RKEBootstrapTemplate")...),
	append(gvks(rkev1.MachineGroupVersion, "DigitaloceanMachineTemplate"), gvks(rkev1.MachineConfigGroupVersion, "DigitaloceanConfig")...)...)

func gvks(group schema.GroupVersion, kinds ...string) (all []schema.GroupVersionKind) {
	for _, kind := range kinds {
		all = append(all, group.WithKind(kind))
	}
	return all
}

// exists reports whether an owner exists.
func (w *world) exists(t *testing.T, owner metav1.OwnerReference) bool {
	t.Helper()
	obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind}}
	err := w.client.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: owner.Name}, obj)
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil && obj.UID == owner.UID
}

// TestReconcile_reapplied: an applier that writes the same manifest again and again causes no write.
func TestReconcile_reapplied(t *testing.T) {
	w := newWorld(t, nil)
	manifest := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"cloudCredentialSecretName": "digitalocean", "kubernetesVersion": "v1.36.3+k3s1",
		"rkeConfig": map[string]any{
			"chartValues": map[string]any{"traefik": map[string]any{"a": int64(1)}},
			"machinePools": []any{
				map[string]any{"name": "server", "etcdRole": true, "controlPlaneRole": true, "machineConfigRef": map[string]any{"kind": "DigitaloceanConfig", "name": "server"}},
				map[string]any{"name": "workers", "workerRole": true, "quantity": int64(2), "unhealthyNodeTimeout": "5m", "machineConfigRef": map[string]any{"kind": "DigitaloceanConfig", "name": "workers"}},
			}}}}}
	manifest.SetGroupVersionKind(provv1.GroupVersion.WithKind("Cluster"))
	manifest.SetNamespace(w.cluster.Namespace)
	manifest.SetName("one")
	manifest.SetLabels(map[string]string{"app.kubernetes.io/instance": "shop"})
	config := &unstructured.Unstructured{Object: map[string]any{"region": "nyc3", "image": "ubuntu-22-04-x64", "size": "s-2vcpu-4gb"}}
	config.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("DigitaloceanConfig"))
	config.SetNamespace(w.cluster.Namespace)
	config.SetName("workers")
	config.SetLabels(map[string]string{"app.kubernetes.io/instance": "shop"})
	apply := func() {
		for _, obj := range []*unstructured.Unstructured{manifest, config} {
			require.NoError(t, w.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner("argocd"), client.ForceOwnership))
		}
	}
	apply()
	for range 3 {
		w.reconcile(t)
	}
	version := w.cluster.ResourceVersion
	require.Zero(t, w.writes(t, func() {
		for range 20 {
			apply()
			w.reconcile(t)
		}
	}))
	require.Equal(t, version, w.cluster.ResourceVersion)
}

// TestReconcile_serverPool: the number of servers in the specification makes and deletes no machine.
func TestReconcile_serverPool(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	before := w.machinesOf(t, "DigitaloceanMachineTemplate")
	for _, quantity := range []int32{3, 2, 0, 1} {
		w.cluster.Spec.RKEConfig.MachinePools[0].Quantity = &quantity
		require.NoError(t, w.client.Update(t.Context(), w.cluster))
		w.reconcile(t)
		require.Equal(t, before, w.machinesOf(t, "DigitaloceanMachineTemplate"))
		switch quantity {
		case 0:
			testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason)
		case 1:
			testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.WaitingForControlPlaneReason)
		default:
			testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.TierUnsupportedReason)
		}
	}
}
