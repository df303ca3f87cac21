package managementcluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/managementcluster"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	if err = errors.Join(err, ownErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(crds, own...)...))
}

// nodes are the totals of all workload clusters; nil while they cannot be reached.
type nodes struct{ totals *workload.Totals }

func (n *nodes) Totals(context.Context, client.ObjectKey) (*workload.Totals, error) {
	return n.totals, nil
}
func (*nodes) OnTotals(func(client.ObjectKey)) {}

// world is a namespace with one Cluster.
type world struct {
	client  client.WithWatch
	clock   *testclock.FakePassiveClock
	nodes   *nodes
	events  *events.FakeRecorder
	options managementcluster.Options
	r       *managementcluster.Reconciler
	cluster *provv1.Cluster
}

func newWorld(t *testing.T, change func(*provv1.Cluster)) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, rkev1.AddToScheme, provv1.AddToScheme, v3.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	w := &world{client: testkit.Client(t, scheme), clock: testclock.NewFakePassiveClock(time.Now()), nodes: &nodes{}, events: events.NewFakeRecorder(10)}
	w.options = managementcluster.Options{Client: w.client, Reader: w.client, Totals: w.nodes, Clock: w.clock, Recorder: w.events}
	w.r = managementcluster.New(w.options)
	w.cluster = newCluster(testkit.Namespace(t), "one")
	if change != nil {
		change(w.cluster)
	}
	require.NoError(t, w.client.Create(t.Context(), w.cluster))
	return w
}

func newCluster(namespace, name string) *provv1.Cluster {
	return &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.3+k3s1",
		AgentEnvVars: []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy.test"}},
		RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.MachinePool{
			{Name: "server", EtcdRole: true, MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "server"}}}}}}
}

func (w *world) reconcile(t *testing.T) reconcile.Result {
	t.Helper()
	result := testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectExists(t, w.client, w.cluster)
	return result
}

// management returns the management Cluster.
func (w *world) management(t *testing.T) *v3.Cluster {
	t.Helper()
	require.NotEmpty(t, w.cluster.Status.ClusterName)
	return testkit.ExpectExists(t, w.client, &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Status.ClusterName}})
}

func (w *world) annotate(t *testing.T, name string) {
	t.Helper()
	before := w.cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&w.cluster.ObjectMeta, provv1.ManagementClusterNameAnnotation, name)
	require.NoError(t, w.client.Patch(t.Context(), w.cluster, client.MergeFrom(before)))
}

// count counts the writes of the next reconciles.
func (w *world) count() *int {
	writes := 0
	w.options.Client = testkit.Writes(w.client, func(_ string, do func() error) error {
		writes++
		return do()
	})
	w.r = managementcluster.New(w.options)
	return &writes
}

// controlPlane creates the RKEControlPlane that the Cluster renders, with a status.
func (w *world) controlPlane(t *testing.T, available metav1.ConditionStatus, version string) {
	t.Helper()
	obj := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: w.cluster.Name, Labels: map[string]string{rkev1.ClusterNameLabel: w.cluster.Name}}}
	require.NoError(t, client.IgnoreAlreadyExists(w.client.Create(t.Context(), obj)))
	testkit.ExpectExists(t, w.client, obj)
	before := obj.DeepCopy()
	obj.Status.Conditions = []metav1.Condition{{Type: rkev1.AvailableCondition, Status: available, Reason: rkev1.APIAnswersReason, Message: "it answers", LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	obj.Status.Versions = []clusterv1.StatusVersion{{Version: version}}
	require.NoError(t, w.client.Status().Patch(t.Context(), obj, client.MergeFrom(before)))
}

// TestReconcile: a Cluster gets one management Cluster under a generated name, once.
func TestReconcile(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	require.Regexp(t, `^c-m-[a-z0-9]{8}$`, w.cluster.Status.ClusterName)
	require.Equal(t, w.cluster.Status.ClusterName, w.cluster.Annotations[provv1.ManagementClusterNameAnnotation])
	testkit.ExpectCondition(t, w.cluster, provv1.ManagementClusterCondition, metav1.ConditionTrue, provv1.NamedReason)
	got := w.management(t)
	require.Equal(t, v3.ClusterSpec{DisplayName: "one", AgentEnvVars: w.cluster.Spec.AgentEnvVars,
		ProvisioningCluster: v3.ProvisioningClusterReference{Namespace: w.cluster.Namespace, Name: "one", UID: string(w.cluster.UID)}}, got.Spec)
	require.Equal(t, "k3s", got.Status.Provider)
	require.Equal(t, v3.ImportedDriver, got.Status.Driver)
	require.Equal(t, v3.ClusterInfo{MachineProvider: "digitalocean"}, got.Status.Info)
	require.Equal(t, got.Generation, got.Status.ObservedGeneration)

	writes := w.count()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	require.Zero(t, w.reconcile(t))
	require.Zero(t, *writes, "nothing changed, nothing is written")
}

// TestReconcile_name: the name stays, whatever happens to the annotation.
func TestReconcile_name(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	name := w.cluster.Status.ClusterName
	for _, annotation := range []string{"", "another", "Not a name"} {
		w.annotate(t, annotation)
		w.reconcile(t)
		require.Equal(t, name, w.cluster.Annotations[provv1.ManagementClusterNameAnnotation])
		require.Equal(t, name, w.cluster.Status.ClusterName)
	}
	testkit.ExpectNotFound(t, w.client, &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "another"}})

	// A backup has neither the status nor, perhaps, the annotation.
	w.annotate(t, "")
	before := w.cluster.DeepCopy()
	w.cluster.Status = provv1.ClusterStatus{}
	require.NoError(t, w.client.Status().Patch(t.Context(), w.cluster, client.MergeFrom(before)))
	w.reconcile(t)
	require.Equal(t, name, w.cluster.Status.ClusterName)
	require.Equal(t, name, w.cluster.Annotations[provv1.ManagementClusterNameAnnotation])
}

// TestReconcile_givenName: a user may give a name that is free and valid.
func TestReconcile_givenName(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"local", "Upper", "a.b", "a-name-that-has-more-than-sixty-three-characters-is-not-a-dns-label"} {
		w.annotate(t, name)
		w.reconcile(t)
		message := testkit.ExpectCondition(t, w.cluster, provv1.ManagementClusterCondition, metav1.ConditionFalse, provv1.NameInvalidReason).Message
		require.Contains(t, message, fmt.Sprintf("kubectl annotate clusters.provisioning.cattle.io one -n %s %s-", w.cluster.Namespace, provv1.ManagementClusterNameAnnotation))
		require.Empty(t, w.cluster.Status.ClusterName)
	}
	given := "shop-" + w.cluster.Namespace
	w.annotate(t, given)
	w.reconcile(t)
	require.Equal(t, given, w.cluster.Status.ClusterName)
	testkit.ExpectCondition(t, w.cluster, provv1.ManagementClusterCondition, metav1.ConditionTrue, provv1.NamedReason)
}

// TestReconcile_nameOfAnother: a management Cluster of another owner is never taken over, and stays as it is.
func TestReconcile_nameOfAnother(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	name := w.cluster.Status.ClusterName
	theirs := w.management(t)

	namesake := newCluster(testkit.Namespace(t), "one")
	for _, other := range []*provv1.Cluster{namesake, newCluster(w.cluster.Namespace, "two")} {
		other.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: name}
		require.NoError(t, w.client.Create(t.Context(), other))
		testkit.ExpectReconciled(t, w.r, other)
		testkit.ExpectExists(t, w.client, other)
		message := testkit.ExpectCondition(t, other, provv1.ManagementClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason).Message
		require.Equal(t, fmt.Sprintf("the management Cluster %s belongs to another Cluster. For a generated name: kubectl annotate clusters.provisioning.cattle.io %s -n %s %s-",
			name, other.Name, other.Namespace, provv1.ManagementClusterNameAnnotation), message)
		require.Contains(t, <-w.events.Events, provv1.NameTakenReason)
		require.Empty(t, other.Status.ClusterName)
		require.Equal(t, theirs, w.management(t))

		require.NoError(t, w.client.Delete(t.Context(), other))
		testkit.ExpectReconciled(t, w.r, other)
		require.Equal(t, theirs, w.management(t), "the deletion of a Cluster that names it has no effect")
	}
}

// TestReconcile_race: of many Clusters that ask for one name at a time, one gets it.
func TestReconcile_race(t *testing.T) {
	w := newWorld(t, nil)
	name := "wanted-" + w.cluster.Namespace
	var clusters []*provv1.Cluster
	for i := range 8 {
		obj := newCluster(w.cluster.Namespace, fmt.Sprint("c", i))
		obj.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: name}
		require.NoError(t, w.client.Create(t.Context(), obj))
		clusters = append(clusters, obj)
	}
	var wait sync.WaitGroup
	for _, obj := range clusters {
		wait.Go(func() {
			for range 3 { // a conflict is tried again
				_, _ = w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			}
		})
	}
	wait.Wait()
	owner := testkit.ExpectExists(t, w.client, &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}).Spec.ProvisioningCluster
	winners := 0
	for _, obj := range clusters {
		testkit.ExpectExists(t, w.client, obj)
		if obj.Status.ClusterName == name {
			winners++
			require.Equal(t, string(obj.UID), owner.UID)
			continue
		}
		testkit.ExpectCondition(t, obj, provv1.ManagementClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
	}
	require.Equal(t, 1, winners)
}

// TestReconcile_restored: a Cluster of the same namespace and name takes over if the noted UID is gone.
func TestReconcile_restored(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	old := w.management(t)
	old.Spec.Description = "of an administrator"
	require.NoError(t, w.client.Update(t.Context(), old))
	backup := newCluster(w.cluster.Namespace, "one")
	backup.Annotations = w.cluster.Annotations
	require.NoError(t, w.client.Delete(t.Context(), w.cluster)) // without an event for the manager
	require.NoError(t, w.client.Create(t.Context(), backup))
	earlier := w.cluster
	w.cluster = backup
	w.reconcile(t)
	require.Equal(t, old.Name, w.cluster.Status.ClusterName)
	got := w.management(t)
	require.Equal(t, old.UID, got.UID)
	require.Equal(t, string(backup.UID), got.Spec.ProvisioningCluster.UID)
	require.Equal(t, "of an administrator", got.Spec.Description)

	// A cache that still has the earlier Cluster does not take it back.
	w.options.Client = stale{WithWatch: w.client, obj: earlier}
	w.r = managementcluster.New(w.options)
	result := testkit.ExpectReconciled(t, w.r, w.cluster)
	require.NotZero(t, result.RequeueAfter)
	require.Equal(t, got, w.management(t))
}

// stale reads one object as it was.
type stale struct {
	client.WithWatch
	obj *provv1.Cluster
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if cluster, ok := obj.(*provv1.Cluster); ok && key == client.ObjectKeyFromObject(s.obj) {
		s.obj.DeepCopyInto(cluster)
		return nil
	}
	return s.WithWatch.Get(ctx, key, obj, opts...)
}

// TestReconcile_edited: an edit of a copied field is reverted, the description stays.
func TestReconcile_edited(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	management := w.management(t)
	management.Spec.DisplayName, management.Spec.Description, management.Spec.AgentEnvVars = "other", "kept", nil
	management.Spec.ProvisioningCluster.UID = "forged"
	require.NoError(t, w.client.Update(t.Context(), management))
	w.cluster.Spec.LocalClusterAuthEndpoint.FQDN = "api.test"
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	w.reconcile(t)
	require.Equal(t, v3.ClusterSpec{DisplayName: "one", Description: "kept", AgentEnvVars: w.cluster.Spec.AgentEnvVars, LocalClusterAuthEndpoint: w.cluster.Spec.LocalClusterAuthEndpoint,
		ProvisioningCluster: v3.ProvisioningClusterReference{Namespace: w.cluster.Namespace, Name: "one", UID: string(w.cluster.UID)}}, w.management(t).Spec)

	management = w.management(t)
	management.Spec.ProvisioningCluster.Name = "two"
	require.ErrorContains(t, w.client.Update(t.Context(), management), "a management Cluster keeps its provisioning Cluster")
}

// TestReconcile_deletion: the management Cluster stays until its Cluster is gone.
func TestReconcile_deletion(t *testing.T) {
	w := newWorld(t, func(c *provv1.Cluster) { c.Finalizers = []string{"test.example/held"} })
	w.reconcile(t)
	management := w.management(t)
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	w.reconcile(t)
	require.NotNil(t, w.management(t).DeletionTimestamp)
	w.reconcile(t)
	w.cluster.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	testkit.ExpectNotFound(t, w.client, w.cluster)
	testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectNotFound(t, w.client, management)
}

// TestReconcile_gone: the management Cluster of a Cluster that is gone is deleted, unless the cache is behind or the
// Cluster is another manager's.
func TestReconcile_gone(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	management := w.management(t)
	w.options.Client = missing{WithWatch: w.client}
	w.r = managementcluster.New(w.options)
	testkit.ExpectReconciled(t, w.r, w.cluster)
	require.Equal(t, management, w.management(t), "the Cluster exists")

	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	for _, other := range []func(*managementcluster.Options){
		func(o *managementcluster.Options) { o.Namespace = "other" },
		func(o *managementcluster.Options) { o.WatchFilter = "other" },
	} {
		options := w.options
		other(&options)
		testkit.ExpectReconciled(t, managementcluster.New(options), w.cluster)
		testkit.ExpectExists(t, w.client, management)
	}
	testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectNotFound(t, w.client, management)
}

// missing has no Clusters.
type missing struct{ client.WithWatch }

func (m missing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*provv1.Cluster); ok {
		key.Name = "missing"
	}
	return m.WithWatch.Get(ctx, key, obj, opts...)
}

// TestReconcile_deletedByManagement: the deletion of the management Cluster deletes the Cluster, also a paused one.
func TestReconcile_deletedByManagement(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	w.cluster.Annotations[clusterv1.PausedAnnotation], w.cluster.Finalizers = "", []string{"test.example/held"}
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	management := w.management(t)
	require.NoError(t, w.client.Delete(t.Context(), management))
	w.reconcile(t)
	require.NotNil(t, w.cluster.DeletionTimestamp)
	w.reconcile(t)
	testkit.ExpectExists(t, w.client, management)
	w.cluster.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	testkit.ExpectReconciled(t, w.r, w.cluster)
	testkit.ExpectNotFound(t, w.client, management, w.cluster)
}

// TestReconcile_deletedForAnEarlierOne: a management Cluster that is being deleted with an earlier Cluster of the name
// does not delete its successor.
func TestReconcile_deletedForAnEarlierOne(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	management := w.management(t)
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	require.NoError(t, w.client.Delete(t.Context(), management))
	w.cluster = newCluster(w.cluster.Namespace, "one")
	w.cluster.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: management.Name}
	require.NoError(t, w.client.Create(t.Context(), w.cluster))
	w.reconcile(t)
	testkit.ExpectNotFound(t, w.client, management)
	require.Nil(t, w.cluster.DeletionTimestamp)
	w.reconcile(t)
	require.Equal(t, management.Name, w.cluster.Status.ClusterName)
	require.NotEqual(t, management.UID, w.management(t).UID)
}

// TestReconcile_nothing: an imported Cluster, a paused one and another manager's get none.
func TestReconcile_nothing(t *testing.T) {
	for name, change := range map[string]func(*provv1.Cluster){
		"imported":          func(c *provv1.Cluster) { c.Spec = provv1.ClusterSpec{} },
		"paused":            func(c *provv1.Cluster) { c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		"another manager's": func(c *provv1.Cluster) { c.Labels = map[string]string{clusterv1.WatchLabel: "other"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.options.WatchFilter = w.cluster.Labels[clusterv1.WatchLabel] + "x"
			if w.cluster.Labels == nil {
				w.options.WatchFilter = ""
			}
			writes := w.count()
			w.reconcile(t)
			require.Zero(t, *writes)
		})
	}
	t.Run("the CAPI Cluster is paused", func(t *testing.T) {
		w := newWorld(t, nil)
		paused := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: "one"}, Spec: clusterv1.ClusterSpec{Paused: new(true),
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.test", Port: 6443}}}
		require.NoError(t, w.client.Create(t.Context(), paused))
		writes := w.count()
		w.reconcile(t)
		require.Zero(t, *writes)
	})
}

// TestReconcile_status: the status follows the Cluster, its control plane and its Nodes.
func TestReconcile_status(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	before := w.cluster.DeepCopy()
	for _, condition := range []string{provv1.ReadyCondition, provv1.ProvisionedCondition} {
		w.cluster.Status.Conditions = append(w.cluster.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: provv1.WaitingForMachinesReason,
			Message: "pool workers: 1 of 2 machines is ready", LastTransitionTime: metav1.NewTime(w.clock.Now())})
	}
	require.NoError(t, w.client.Status().Patch(t.Context(), w.cluster, client.MergeFrom(before)))
	w.controlPlane(t, metav1.ConditionTrue, "v1.36.3+k3s1")
	w.nodes.totals = &workload.Totals{Nodes: 3, LinuxWorkers: 2, Arch: "amd64",
		Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6"), corev1.ResourceMemory: resource.MustParse("12Gi"), corev1.ResourcePods: resource.MustParse("330")},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5900m")}}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile(t)
	status := w.management(t).Status
	require.Equal(t, int32(3), status.NodeCount)
	require.Equal(t, int32(2), status.LinuxWorkerCount)
	require.Equal(t, "12Gi", status.Capacity.Memory().String())
	require.Equal(t, "5900m", status.Allocatable.Cpu().String())
	require.Equal(t, &v3.VersionInfo{Major: "1", Minor: "36", GitVersion: "v1.36.3+k3s1"}, status.Version)
	require.Equal(t, v3.ClusterInfo{KubernetesVersion: "v1.36.3+k3s1", MachineProvider: "digitalocean", Arch: "amd64"}, status.Info)
	management := w.management(t)
	for _, condition := range []string{v3.ReadyCondition, v3.ProvisionedCondition} {
		require.Equal(t, "pool workers: 1 of 2 machines is ready", testkit.ExpectCondition(t, management, condition, metav1.ConditionFalse, provv1.WaitingForMachinesReason).Message)
	}
	for _, condition := range []string{v3.ConnectedCondition, v3.AgentDeployedCondition} {
		testkit.ExpectCondition(t, management, condition, metav1.ConditionTrue, rkev1.APIAnswersReason)
	}

	// A cluster that cannot be reached keeps its totals. A version that no release has is not shown.
	w.nodes.totals = nil
	w.controlPlane(t, metav1.ConditionUnknown, "v1.36.3 <script>")
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile(t)
	management = w.management(t)
	require.Equal(t, int32(3), management.Status.NodeCount)
	require.Nil(t, management.Status.Version)
	testkit.ExpectCondition(t, management, v3.ConnectedCondition, metav1.ConditionUnknown, rkev1.APIAnswersReason)
}

// TestReconcile_interval: the status is written at most once in ten seconds.
func TestReconcile_interval(t *testing.T) {
	w := newWorld(t, nil)
	w.controlPlane(t, metav1.ConditionTrue, "v1.36.3+k3s1")
	writes := w.count()
	w.nodes.totals = &workload.Totals{Nodes: 1}
	require.Zero(t, w.reconcile(t))
	require.Equal(t, 4, *writes, "annotation, management Cluster, and the status of both")
	for second := range 30 {
		w.nodes.totals = &workload.Totals{Nodes: int32(second + 2)}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		result := w.reconcile(t)
		require.Equal(t, 4+(second+1)/10, *writes)
		if left := 9 - second%10; left > 0 {
			require.Equal(t, time.Duration(left)*time.Second, result.RequeueAfter)
		}
	}
	require.Equal(t, int32(31), w.management(t).Status.NodeCount)
}

// TestReconcile_conflict: a change by another writer is tried again quietly.
func TestReconcile_conflict(t *testing.T) {
	w := newWorld(t, nil)
	w.options.Client = testkit.Writes(w.client, func(_ string, do func() error) error {
		changed := testkit.ExpectExists(t, w.client, w.cluster.DeepCopy())
		changed.Labels = map[string]string{"changed": time.Now().Format("150405.000000000")}
		require.NoError(t, w.client.Update(t.Context(), changed))
		return do()
	})
	w.r = managementcluster.New(w.options)
	require.NotZero(t, w.reconcile(t).RequeueAfter)
	testkit.ExpectNoCondition(t, w.cluster, provv1.ManagementClusterCondition)
	require.Empty(t, w.cluster.Annotations)
}
