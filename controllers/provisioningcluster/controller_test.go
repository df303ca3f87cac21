package provisioningcluster_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	flags, _ := driver.Builtin("digitalocean")
	fields, fieldsErr := crdgen.FieldsOf("digitalocean", flags, crdgen.Rules{})
	config, template, machine, kindsErr := crdgen.CRDs(crdgen.Schema{Driver: "digitalocean", Fields: fields})
	if err = errors.Join(err, ownErr, fieldsErr, kindsErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(append(crds, own...), config, template, machine)...))
}

// world is a namespace with a Cluster and its Configs.
type world struct {
	client  client.WithWatch
	cluster *provv1.Cluster
	r       *provisioningcluster.Reconciler
}

func newWorld(t *testing.T, change func(*provv1.Cluster)) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clusterv1.AddToScheme(scheme))
	require.NoError(t, rkev1.AddToScheme(scheme))
	require.NoError(t, provv1.AddToScheme(scheme))
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	require.NoError(t, v3.AddToScheme(scheme))
	w := &world{client: testkit.Client(t, scheme)}
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client})
	namespace := testkit.Namespace(t)
	w.cluster = &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: provv1.ClusterSpec{
		CloudCredentialSecretName: "digitalocean", KubernetesVersion: "v1.36.3+k3s1",
		RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.MachinePool{
			{Name: "server", EtcdRole: true, ControlPlaneRole: true, MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "server"}},
			{Name: "workers", WorkerRole: true, Quantity: new(int32(2)), MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "workers"}},
		}}}}
	if change != nil {
		change(w.cluster)
	}
	for _, name := range []string{"server", "workers"} {
		require.NoError(t, w.client.Create(t.Context(), w.config(name, "s-2vcpu-4gb")))
	}
	require.NoError(t, w.client.Create(t.Context(), w.cluster))
	return w
}

func (w *world) config(name, size string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"region": "nyc3", "size": size, "image": "ubuntu-22-04-x64"}}
	obj.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("DigitaloceanConfig"))
	obj.SetNamespace(w.cluster.Namespace)
	obj.SetName(name)
	return obj
}

func (w *world) reconcile(t *testing.T) {
	t.Helper()
	testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectExists(t, w.client, w.cluster)
}

func (w *world) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name}
}

func (w *world) deployment(t *testing.T, name string) *clusterv1.MachineDeployment {
	t.Helper()
	return testkit.ExpectExists(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named(name)})
}

// writes counts the writes of a function.
func (w *world) writes(t *testing.T, do func()) int {
	t.Helper()
	count, direct := 0, w.client
	counting := testkit.Writes(direct, func(_ string, do func() error) error {
		count++
		return do()
	})
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: counting, Reader: direct})
	do()
	return count
}

// TestReconcile: one Cluster becomes all objects of Cluster API, once.
func TestReconcile(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	cluster := testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	require.Equal(t, w.cluster.UID, metav1.GetControllerOf(cluster).UID)
	require.Equal(t, "one", w.cluster.Annotations[provv1.RenderedAnnotation])
	require.Contains(t, w.cluster.Finalizers, provv1.ClusterFinalizer)
	testkit.ExpectExists(t, w.client, &rkev1.RKECluster{ObjectMeta: w.named("one")})
	testkit.ExpectExists(t, w.client, &rkev1.RKEBootstrapTemplate{ObjectMeta: w.named("one-bootstrap-template")})
	require.Equal(t, "v1.36.3+k3s1", testkit.ExpectExists(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")}).Spec.KubernetesVersion)
	require.Equal(t, int32(1), *w.deployment(t, "one-server").Spec.Replicas)
	workers := w.deployment(t, "one-workers")
	require.Equal(t, int32(2), *workers.Spec.Replicas)
	require.Equal(t, cluster.UID, workers.OwnerReferences[0].UID)
	for _, name := range []string{"server", "workers"} {
		require.Equal(t, w.cluster.UID, metav1.GetControllerOf(testkit.ExpectExists(t, w.client, w.config(name, ""))).UID)
	}
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.WaitingForControlPlaneReason)
	require.Equal(t, w.cluster.Generation, w.cluster.Status.ObservedGeneration)
	require.Zero(t, w.writes(t, func() { w.reconcile(t) }), "nothing changed, nothing is written")
}

// TestReconcile_ready: the Cluster is Ready when the control plane and all pools are.
func TestReconcile_ready(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	controlPlane := testkit.ExpectExists(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")})
	before := controlPlane.DeepCopy()
	controlPlane.Status.Initialized, controlPlane.Status.ObservedGeneration = true, controlPlane.Generation
	for _, condition := range []string{rkev1.ReconciledCondition, rkev1.AvailableCondition} {
		controlPlane.Status.Conditions = append(controlPlane.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Yes", LastTransitionTime: metav1.Now()})
	}
	require.NoError(t, w.client.Status().Patch(t.Context(), controlPlane, client.MergeFrom(before)))
	for name, machines := range map[string]int32{"one-server": 1, "one-workers": 2} {
		made := w.deployment(t, name)
		before := made.DeepCopy()
		made.Status.ObservedGeneration = made.Generation
		made.Status.Replicas, made.Status.ReadyReplicas, made.Status.UpToDateReplicas, made.Status.AvailableReplicas = &machines, &machines, &machines, &machines
		require.NoError(t, w.client.Status().Patch(t.Context(), made, client.MergeFrom(before)))
	}
	w.reconcile(t)
	for _, condition := range []string{provv1.ReadyCondition, provv1.UpdatedCondition, provv1.ProvisionedCondition, provv1.MachinesUpToDateCondition} {
		require.Equal(t, w.cluster.Generation, testkit.ExpectCondition(t, w.cluster, condition, metav1.ConditionTrue, "").ObservedGeneration)
	}
	require.Equal(t, "one-kubeconfig", w.cluster.Status.ClientSecretName)
	require.Equal(t, []provv1.PoolStatus{{Name: "server", Wanted: 1, Made: 1, Ready: 1, UpToDate: 1}, {Name: "workers", Wanted: 2, Made: 2, Ready: 2, UpToDate: 2}}, w.cluster.Status.Pools)

	w.cluster.Spec.RKEConfig.ProvisionGeneration = 2
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.WaitingForControlPlaneReason)
}

// TestReconcile_edits: pools follow the specification; the pool with the cluster's data stays.
func TestReconcile_edits(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	template := w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name
	config := testkit.ExpectExists(t, w.client, w.config("workers", ""))
	config.Object["size"] = "s-4vcpu-8gb"
	require.NoError(t, w.client.Update(t.Context(), config))
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(5))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	workers := w.deployment(t, "one-workers")
	require.Equal(t, int32(5), *workers.Spec.Replicas)
	require.NotEqual(t, template, workers.Spec.Template.Spec.InfrastructureRef.Name)
	w.reconcile(t)
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachineTemplate"))
	old.SetNamespace(w.cluster.Namespace)
	old.SetName(template)
	testkit.ExpectNotFound(t, w.client, old)

	w.cluster.Spec.RKEConfig.MachinePools = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectNotFound(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers")})
	w.deployment(t, "one-server")
	testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason)
}

// TestReconcile_replacement: a replacement that waits is reported, with the command that approves it.
func TestReconcile_replacement(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval })
	w.reconcile(t)
	before := w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name
	config := testkit.ExpectExists(t, w.client, w.config("workers", ""))
	config.Object["size"] = "s-4vcpu-8gb"
	require.NoError(t, w.client.Update(t.Context(), config))
	w.reconcile(t)
	require.Equal(t, before, w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name)
	pending := testkit.ExpectCondition(t, w.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacementPendingReason)
	require.Contains(t, pending.Message, "pool workers: 2 machines differ from their Config in size from s-2vcpu-4gb to s-4vcpu-8gb\n* Approve the replacement: kubectl annotate clusters.provisioning.cattle.io one -n ")
	require.Contains(t, pending.Message, provv1.ApproveReplacementAnnotation+"="+w.cluster.Status.PendingReplacement.ID)

	w.cluster.Annotations[provv1.ApproveReplacementAnnotation] = "another"
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	pending = testkit.ExpectCondition(t, w.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacementPendingReason)
	require.Contains(t, pending.Message, "The approval of another is for an earlier change and has no effect")

	w.cluster.Annotations[provv1.ApproveReplacementAnnotation] = w.cluster.Status.PendingReplacement.ID
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.NotEqual(t, before, w.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name)
	require.Nil(t, w.cluster.Status.PendingReplacement)
}

// TestReconcile_reverts: a change of a rendered field by another writer is reverted.
func TestReconcile_reverts(t *testing.T) {
	w := newWorld(t, nil)
	recorder := events.NewFakeRecorder(10)
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client, Recorder: recorder})
	w.reconcile(t)
	require.Contains(t, <-recorder.Events, provv1.RenderedReason)
	workers := w.deployment(t, "one-workers")
	workers.Spec.Replicas = new(int32(7))
	require.NoError(t, w.client.Update(t.Context(), workers))
	w.reconcile(t)
	require.Contains(t, <-recorder.Events, "another writer changed MachineDeployment one-workers")
	require.Equal(t, int32(2), *w.deployment(t, "one-workers").Spec.Replicas)
}

// TestReconcile_paused: nothing is written while the Cluster or its CAPI Cluster is paused.
func TestReconcile_paused(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	testkit.ExpectNotFound(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	delete(w.cluster.Annotations, clusterv1.PausedAnnotation)
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	cluster := testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	cluster.Spec.Paused = new(true)
	require.NoError(t, w.client.Update(t.Context(), cluster))
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(5))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.Equal(t, int32(2), *w.deployment(t, "one-workers").Spec.Replicas)
}

// TestReconcile_twice: a Cluster that was rendered before makes no second set of servers.
func TestReconcile_twice(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Annotations = map[string]string{provv1.RenderedAnnotation: "one"} })
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.CAPIClusterMissingReason)
	testkit.ExpectNotFound(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")}, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-server")})
}

// TestReconcile_autoscaled: quantity is the first size, and then the number is the autoscaler's.
func TestReconcile_autoscaled(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) {
		pool := &c.Spec.RKEConfig.MachinePools[1]
		pool.Quantity, pool.AutoscalingMinSize, pool.AutoscalingMaxSize = new(int32(3)), new(int32(1)), new(int32(9))
	})
	w.reconcile(t)
	workers := w.deployment(t, "one-workers")
	require.Equal(t, int32(3), *workers.Spec.Replicas)
	fields := testkit.ExpectCondition(t, w.cluster, provv1.NotActedOnCondition, metav1.ConditionTrue, "")
	require.Contains(t, fields.Message, "rkeConfig.machinePools[workers].quantity")
	workers.Spec.Replicas = new(int32(7))
	require.NoError(t, w.client.Update(t.Context(), workers))
	w.cluster.Annotations[provv1.AutoscalerPausedAnnotation] = "true"
	w.cluster.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(5))
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	workers = w.deployment(t, "one-workers")
	require.Equal(t, int32(7), *workers.Spec.Replicas)
	require.NotContains(t, workers.Annotations, clusterv1.AutoscalerMaxSizeAnnotation)
	delete(w.cluster.Annotations, provv1.AutoscalerPausedAnnotation)
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	workers = w.deployment(t, "one-workers")
	require.Equal(t, int32(7), *workers.Spec.Replicas)
	require.Equal(t, "9", workers.Annotations[clusterv1.AutoscalerMaxSizeAnnotation])
	require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
}

// TestReconcile_names: an object of somebody else is never taken over.
func TestReconcile_names(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	theirs := &clusterv1.Cluster{ObjectMeta: w.named("one"), Spec: clusterv1.ClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.test", Port: 6443}}}
	require.NoError(t, w.client.Create(t.Context(), theirs))
	w.cluster.Annotations = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
	testkit.ExpectNotFound(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")})
	require.NoError(t, w.client.Delete(t.Context(), theirs))

	deployment := &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "other",
		Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{ClusterName: "other",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("x")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.test", Kind: "Y", Name: "z"}}}}}
	require.NoError(t, w.client.Create(t.Context(), deployment))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
	require.Equal(t, "other", w.deployment(t, "one-workers").Spec.ClusterName)
}

// TestReconcile_conflict: a conflict before anything is reported is tried again.
func TestReconcile_conflict(t *testing.T) {
	w := newWorld(t, nil)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "digitaloceanconfigs"}, "server", errors.New("changed"))
	w.r = provisioningcluster.New(provisioningcluster.Options{Reader: w.client, Client: testkit.Writes(w.client, func(write string, do func() error) error {
		if strings.Contains(strings.ToLower(write), "config") {
			return conflict
		}
		return do()
	})})
	_, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
	require.NoError(t, err)
	testkit.ExpectExists(t, w.client, w.cluster)
	testkit.ExpectNoCondition(t, w.cluster, provv1.RKEClusterCondition)
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client})
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
}

// TestReconcile_otherWriter: what another controller writes into the status during the first rendering
// stays.
func TestReconcile_otherWriter(t *testing.T) {
	w := newWorld(t, nil)
	once := sync.OnceValue(func() error {
		other := testkit.ExpectExists(t, w.client, &provv1.Cluster{ObjectMeta: w.named("one")})
		before := other.DeepCopy()
		other.Status.ClusterName = "c-m-abcdefgh"
		meta.SetStatusCondition(&other.Status.Conditions, metav1.Condition{Type: provv1.ManagementClusterCondition, Status: metav1.ConditionTrue, Reason: provv1.NamedReason})
		return w.client.Status().Patch(t.Context(), other, client.MergeFrom(before))
	})
	w.r = provisioningcluster.New(provisioningcluster.Options{Reader: w.client, Client: testkit.Writes(w.client, func(write string, do func() error) error {
		if strings.Contains(strings.ToLower(write), "config") {
			require.NoError(t, once())
		}
		return do()
	})})
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	testkit.ExpectCondition(t, w.cluster, provv1.ManagementClusterCondition, metav1.ConditionTrue, provv1.NamedReason)
	require.Equal(t, "c-m-abcdefgh", w.cluster.Status.ClusterName)
}

// TestReconcile_restored: objects that come from a backup without owners are the Cluster's again.
func TestReconcile_restored(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	template := w.deployment(t, "one-server").Spec.Template.Spec.InfrastructureRef.Name
	for _, obj := range []client.Object{&clusterv1.Cluster{ObjectMeta: w.named("one")}, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-server")},
		&rkev1.RKEControlPlane{ObjectMeta: w.named("one")}, w.config("server", "")} {
		testkit.ExpectExists(t, w.client, obj)
		obj.SetOwnerReferences(nil)
		require.NoError(t, w.client.Update(t.Context(), obj))
	}
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.Equal(t, w.cluster.UID, metav1.GetControllerOf(testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})).UID)
	require.Equal(t, w.cluster.UID, metav1.GetControllerOf(testkit.ExpectExists(t, w.client, w.config("server", ""))).UID)
	server := w.deployment(t, "one-server")
	require.Len(t, server.OwnerReferences, 1)
	require.Equal(t, template, server.Spec.Template.Spec.InfrastructureRef.Name)
}

// TestReconcile_managementName: the control plane gets the name of the management Cluster. It keeps the name while a
// restored Cluster has none yet, because values of charts contain it.
func TestReconcile_managementName(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	name := func() string {
		t.Helper()
		return testkit.ExpectExists(t, w.client, &rkev1.RKEControlPlane{ObjectMeta: w.named("one")}).Spec.ManagementClusterName
	}
	status := func(change func(*provv1.ClusterStatus)) {
		t.Helper()
		before := w.cluster.DeepCopy()
		change(&w.cluster.Status)
		require.NoError(t, w.client.Status().Patch(t.Context(), w.cluster, client.MergeFrom(before)))
		w.reconcile(t)
	}
	require.Empty(t, name())
	status(func(s *provv1.ClusterStatus) { s.ClusterName = "c-m-abcdefgh" })
	require.Equal(t, "c-m-abcdefgh", name())
	require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
	status(func(s *provv1.ClusterStatus) { *s = provv1.ClusterStatus{} })
	require.Equal(t, "c-m-abcdefgh", name())
	require.Empty(t, w.cluster.Status.ClusterName)
	status(func(s *provv1.ClusterStatus) {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: provv1.ManagementClusterCondition, Status: metav1.ConditionFalse, Reason: provv1.NameTakenReason, LastTransitionTime: metav1.Now()})
	})
	require.Empty(t, name())
}

// TestReconcile_configs: a pool without its Config waits, and the others go on.
func TestReconcile_configs(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].MachineConfigRef.Name = "missing" })
	w.reconcile(t)
	w.deployment(t, "one-server")
	testkit.ExpectNotFound(t, w.client, &clusterv1.MachineDeployment{ObjectMeta: w.named("one-workers")})
	updated := testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigMissingReason)
	require.Contains(t, updated.Message, "pool workers: DigitaloceanConfig missing does not exist")
	other := w.config("missing", "s-1vcpu-1gb")
	other.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: provv1.GroupVersion.String(), Kind: "Cluster", Name: "two", UID: "1", Controller: new(true)}})
	require.NoError(t, w.client.Create(t.Context(), other))
	w.reconcile(t)
	updated = testkit.ExpectCondition(t, w.cluster, provv1.UpdatedCondition, metav1.ConditionFalse, provv1.ConfigTakenReason)
	require.Contains(t, updated.Message, "belongs to Cluster two")
}

// TestReconcile_deletion: the Cluster stays until its CAPI Cluster is gone.
func TestReconcile_deletion(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	cluster := testkit.ExpectExists(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	cluster.Finalizers = []string{"test/held"}
	cluster.Spec.Paused = new(true)
	require.NoError(t, w.client.Update(t.Context(), cluster))
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, clusterv1.PausedReason)
	require.Nil(t, testkit.ExpectExists(t, w.client, cluster).DeletionTimestamp)
	cluster.Spec.Paused = nil
	require.NoError(t, w.client.Update(t.Context(), cluster))
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.DeletingReason)
	require.NotNil(t, testkit.ExpectExists(t, w.client, cluster).DeletionTimestamp)
	cluster.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), cluster))
	testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectNotFound(t, w.client, w.cluster, cluster)
}

// TestReconcile_imported: nothing is created without rkeConfig.
func TestReconcile_imported(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Spec = provv1.ClusterSpec{} })
	w.reconcile(t)
	testkit.ExpectCondition(t, w.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.ImportedReason)
	testkit.ExpectNotFound(t, w.client, &clusterv1.Cluster{ObjectMeta: w.named("one")})
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	testkit.ExpectNotFound(t, w.client, w.cluster)
}
