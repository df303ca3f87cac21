package provisioningcluster_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/managementcluster"
	"github.com/drover-project/drover/testkit"
)

// The tests of this file read and write the objects as Rancher's web page does: as untyped objects, by the
// names of fields, labels and annotations.

// read reads an object as the page does.
func (w *world) read(t *testing.T, group, version, kind, namespace, name string) map[string]any {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj))
	return obj.Object
}

// at returns the value of a path.
func at(t *testing.T, obj map[string]any, path ...string) any {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(obj, path...)
	require.NoError(t, err)
	require.True(t, found, "%v in %v", path, obj)
	return value
}

// TestPage_pools: the page finds the MachineDeployment of a pool by a label, the pool's Config by an
// annotation of the machine template, and counts machines by fields of the MachineDeployment.
func TestPage_pools(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	deployments := &unstructured.UnstructuredList{}
	deployments.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeploymentList"})
	require.NoError(t, w.client.List(t.Context(), deployments, client.InNamespace(w.cluster.Namespace), client.MatchingLabels{"cluster.x-k8s.io/cluster-name": "one"}))
	require.Len(t, deployments.Items, 2)
	for _, deployment := range deployments.Items {
		require.Equal(t, "one", at(t, deployment.Object, "spec", "clusterName"))
		pool := at(t, deployment.Object, "metadata", "labels", "rke.cattle.io/rke-machine-pool-name")
		require.Equal(t, "one-"+pool.(string), deployment.GetName()) //nolint:forcetypeassert // a label
		require.Equal(t, "one", at(t, deployment.Object, "metadata", "labels", "rke.cattle.io/cluster-name"))
		labels := at(t, deployment.Object, "spec", "template", "metadata", "labels")
		for label, role := range map[string]string{"rke.cattle.io/etcd-role": "server", "rke.cattle.io/control-plane-role": "server", "rke.cattle.io/worker-role": "workers"} {
			_, has := labels.(map[string]any)[label] //nolint:forcetypeassert // labels
			require.Equal(t, role == pool, has, "%s of pool %s", label, pool)
		}
		require.Equal(t, pool, at(t, deployment.Object, "spec", "template", "metadata", "labels", "rke.cattle.io/rke-machine-pool-name"))
		require.Equal(t, "linux", at(t, deployment.Object, "spec", "template", "metadata", "labels", "cattle.io/os"))

		ref := at(t, deployment.Object, "spec", "template", "spec", "infrastructureRef")
		template := w.read(t, "rke-machine.cattle.io", "v1", at(t, ref.(map[string]any), "kind").(string), w.cluster.Namespace, at(t, ref.(map[string]any), "name").(string)) //nolint:forcetypeassert // a reference
		require.Equal(t, pool, at(t, template, "metadata", "annotations", "rke.cattle.io/cloned-from-name"), "the Config of the pool has its name")
		require.Equal(t, "DigitaloceanConfig", at(t, template, "metadata", "annotations", "rke.cattle.io/cloned-from-kind"))
		require.Equal(t, "rke-machine-config.cattle.io/v1", at(t, template, "metadata", "annotations", "rke.cattle.io/cloned-from-group-version"))
	}
	require.Equal(t, int64(2), at(t, w.read(t, "cluster.x-k8s.io", "v1beta2", "MachineDeployment", w.cluster.Namespace, "one-workers"), "spec", "replicas"))

	// Cluster API counts, and a reconcile leaves its counters.
	made := w.deployment(t, "one-workers")
	before := made.DeepCopy()
	made.Status.Replicas, made.Status.ReadyReplicas, made.Status.UpToDateReplicas = new(int32(2)), new(int32(1)), new(int32(2))
	require.NoError(t, w.client.Status().Patch(t.Context(), made, client.MergeFrom(before)))
	w.reconcile(t)
	counted := w.read(t, "cluster.x-k8s.io", "v1beta2", "MachineDeployment", w.cluster.Namespace, "one-workers")
	require.Equal(t, int64(2), at(t, counted, "status", "replicas"))
	require.Equal(t, int64(1), at(t, counted, "status", "readyReplicas"))
	require.Equal(t, provv1.PoolStatus{Name: "workers", Wanted: 2, Made: 2, Ready: 1, UpToDate: 2}, w.cluster.Status.Pools[1])
}

// TestPage_resize: the page writes the whole Cluster with another quantity. After a conflict it reads the
// Cluster again, changes it again and writes it. The Cluster has not lost anything that is not in its form.
func TestPage_resize(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachineGlobalConfig = rkev1.Config{}
		c.Annotations = map[string]string{"field.cattle.io/description": "of the page"}
	})
	w.reconcile(t)
	read := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: w.read(t, "provisioning.cattle.io", "v1", "Cluster", w.cluster.Namespace, "one")}
	}
	resize := func(obj *unstructured.Unstructured, quantity int64) error {
		pools := at(t, obj.Object, "spec", "rkeConfig", "machinePools").([]any) //nolint:forcetypeassert // a list
		for _, pool := range pools {
			if fields := pool.(map[string]any); fields["name"] == "workers" { //nolint:forcetypeassert // a pool
				fields["quantity"] = quantity
			}
		}
		return w.client.Update(t.Context(), obj)
	}
	stale := read()
	require.NoError(t, resize(read(), 4))
	w.reconcile(t)
	require.ErrorContains(t, resize(stale, 3), "the object has been modified")
	require.Equal(t, int32(4), *w.deployment(t, "one-workers").Spec.Replicas)
	require.NoError(t, resize(read(), 3))
	w.reconcile(t)
	require.Equal(t, int32(3), *w.deployment(t, "one-workers").Spec.Replicas)
	require.Equal(t, "of the page", w.cluster.Annotations["field.cattle.io/description"])
	require.Equal(t, int32(3), w.cluster.Status.Pools[1].Wanted)
}

// TestPage_deleteMachine: to delete one machine of a pool, the page marks the Machine with an annotation
// and lowers the pool's quantity. The mark stays, and no other Machine is marked.
func TestPage_deleteMachine(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	deployment := w.deployment(t, "one-workers")
	for _, name := range []string{"one-workers-a", "one-workers-b"} {
		require.NoError(t, w.client.Create(t.Context(), &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name, Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations},
			Spec:       deployment.Spec.Template.Spec}))
	}
	marked := testkit.ExpectExists(t, w.client, &clusterv1.Machine{ObjectMeta: w.named("one-workers-b")})
	marked.Annotations["cluster.x-k8s.io/delete-machine"] = "true"
	require.NoError(t, w.client.Update(t.Context(), marked))
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(1))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	w.reconcile(t)
	require.Equal(t, int32(1), *w.deployment(t, "one-workers").Spec.Replicas)
	require.Equal(t, marked.ResourceVersion, testkit.ExpectExists(t, w.client, &clusterv1.Machine{ObjectMeta: w.named("one-workers-b")}).ResourceVersion)
	require.NotContains(t, testkit.ExpectExists(t, w.client, &clusterv1.Machine{ObjectMeta: w.named("one-workers-a")}).Annotations, "cluster.x-k8s.io/delete-machine")
}

// TestPage_autoscaler: the page pauses the cluster autoscaler by an annotation of the Cluster.
func TestPage_autoscaler(t *testing.T) {
	const enabled, paused = "provisioning.cattle.io/cluster-autoscaler-enabled", "provisioning.cattle.io/cluster-autoscaler-paused"
	w := newWorld(t, func(c *provv1.Cluster) {
		c.Spec.RKEConfig.MachinePools[1].AutoscalingMinSize, c.Spec.RKEConfig.MachinePools[1].AutoscalingMaxSize = new(int32(1)), new(int32(4))
	})
	w.reconcile(t)
	annotations := func() map[string]string {
		return testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")}).Annotations
	}
	require.Equal(t, "true", annotations()[enabled])
	before := w.machinesOf(t, "DigitaloceanMachineTemplate")
	w.cluster.Annotations[paused] = "true"
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.Equal(t, "true", annotations()[paused])
	require.NotContains(t, annotations(), enabled)
	delete(w.cluster.Annotations, paused)
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.Equal(t, "true", annotations()[enabled])
	require.NotContains(t, annotations(), paused)
	require.Equal(t, before, w.machinesOf(t, "DigitaloceanMachineTemplate"), "a pause neither makes nor deletes a machine")
}

// totals are the totals of a workload cluster.
type totals struct{ of workload.Totals }

func (n totals) Totals(context.Context, client.ObjectKey) (*workload.Totals, error) {
	return &n.of, nil
}
func (totals) OnTotals(func(client.ObjectKey)) {}

// TestPage_management: the page opens a Cluster by status.clusterName, and shows the management Cluster's
// version, provider, nodes and capacity. Both controllers write into the Cluster's status, and neither
// takes back the other's part.
func TestPage_management(t *testing.T) {
	w := newWorld(t, nil)
	require.NoError(t, v3.AddToScheme(w.client.Scheme()))
	management := managementcluster.New(managementcluster.Options{Client: w.client, Reader: w.client, Clock: testclock.NewFakePassiveClock(time.Now()),
		Totals: totals{workload.Totals{Nodes: 3, LinuxWorkers: 2, Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}}}})
	for range 3 {
		w.reconcile(t)
		testkit.ExpectReconciled(t, management, w.cluster)
		testkit.ExpectExists(t, w.client, w.cluster)
	}
	controlPlane := testkit.ExpectExists(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")})
	before := controlPlane.DeepCopy()
	controlPlane.Status.Initialized = true
	meta.SetStatusCondition(&controlPlane.Status.Conditions, metav1.Condition{Type: rkev1.AvailableCondition, Status: metav1.ConditionTrue, Reason: "Yes"})
	require.NoError(t, w.client.Status().Patch(t.Context(), controlPlane, client.MergeFrom(before)))
	for range 3 {
		testkit.ExpectReconciled(t, management, w.cluster)
		w.reconcile(t)
	}
	name, _ := at(t, w.read(t, "provisioning.cattle.io", "v1", "Cluster", w.cluster.Namespace, "one"), "status", "clusterName").(string)
	require.Regexp(t, "^c-m-[a-z0-9]{8}$", name)
	shown := w.read(t, "management.cattle.io", "v3", "Cluster", "", name)
	require.Equal(t, "one", at(t, shown, "spec", "displayName"))
	require.Equal(t, "k3s", at(t, shown, "status", "provider"))
	require.Equal(t, int64(3), at(t, shown, "status", "nodeCount"))
	require.Equal(t, int64(2), at(t, shown, "status", "linuxWorkerCount"))
	require.Equal(t, "6", at(t, shown, "status", "capacity", "cpu"))
	require.NotEmpty(t, at(t, shown, "status", "conditions"))
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.Len(t, w.cluster.Status.Pools, 2)
}
