package rkecluster_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/rkecluster"
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

type world struct {
	client  client.WithWatch
	obj     *rkev1.RKECluster
	cluster *clusterv1.Cluster
	r       *rkecluster.Reconciler
}

func newWorld(t *testing.T, change func(*rkev1.RKECluster, *clusterv1.Cluster)) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clusterv1.AddToScheme(scheme))
	require.NoError(t, rkev1.AddToScheme(scheme))
	w := &world{client: testkit.Client(t, scheme)}
	w.r = rkecluster.New(rkecluster.Options{Client: w.client})
	namespace := testkit.Namespace(t)
	w.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	w.obj = &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
		Spec: rkev1.RKEClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.test", Port: 6443}}}
	if change != nil {
		change(w.obj, w.cluster)
	}
	testkit.ExpectApplied(t, w.client, w.cluster)
	w.obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.cluster, clusterv1.GroupVersion.WithKind("Cluster"))}
	require.NoError(t, w.client.Create(t.Context(), w.obj))
	return w
}

func (w *world) reconcile(t *testing.T) {
	t.Helper()
	testkit.ExpectReconciled(t, w.r, w.obj)
	testkit.ExpectExists(t, w.client, w.obj)
}

// update writes what was changed, and reconciles.
func (w *world) update(t *testing.T) {
	t.Helper()
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	require.NoError(t, w.client.Update(t.Context(), w.obj))
	w.reconcile(t)
}

func TestReconcile_provisionsAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	testkit.ExpectCondition(t, w.obj, rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	testkit.ExpectCondition(t, w.obj, rkev1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
	require.True(t, *w.obj.Status.Initialization.Provisioned)
	require.True(t, w.obj.Status.Ready)
	require.Equal(t, "api.test", w.obj.Spec.ControlPlaneEndpoint.Host)
	require.Equal(t, w.obj.Generation, w.obj.Status.ObservedGeneration)

	version := w.obj.ResourceVersion
	w.reconcile(t)
	require.Equal(t, version, w.obj.ResourceVersion, "nothing changed, nothing is written")
}

// Without an endpoint Cluster API would take the Cluster for one that is not provisioned, for ever.
func TestReconcile_endpointThatNobodyGives(t *testing.T) {
	names := func(kind string, endpoint clusterv1.APIEndpoint) func(*rkev1.RKECluster, *clusterv1.Cluster) {
		return func(obj *rkev1.RKECluster, cluster *clusterv1.Cluster) {
			obj.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
			cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: kind, Name: "c1"}
			cluster.Spec.ControlPlaneEndpoint = endpoint
		}
	}
	w := newWorld(t, names("RKEControlPlane", clusterv1.APIEndpoint{}))
	w.reconcile(t)
	require.Equal(t, clusterv1.APIEndpoint{Host: "localhost", Port: 6443}, w.obj.Spec.ControlPlaneEndpoint)
	require.True(t, *w.obj.Status.Initialization.Provisioned)
	require.Equal(t, w.obj.Generation, w.obj.Status.ObservedGeneration)
	testkit.ExpectObserved(t, w.obj)
	version := w.obj.ResourceVersion
	w.reconcile(t)
	require.Equal(t, version, w.obj.ResourceVersion)
	w.obj.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.test", Port: 443}
	require.NoError(t, w.client.Update(t.Context(), w.obj))
	w.reconcile(t)
	require.Equal(t, "api.test", w.obj.Spec.ControlPlaneEndpoint.Host, "he gives one later")

	for what, change := range map[string]func(*rkev1.RKECluster, *clusterv1.Cluster){
		"another's control plane": names("KubeadmControlPlane", clusterv1.APIEndpoint{}),
		"one in the Cluster":      names("RKEControlPlane", clusterv1.APIEndpoint{Host: "api.test", Port: 6443}),
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, change)
			w.reconcile(t)
			require.Empty(t, w.obj.Spec.ControlPlaneEndpoint.Host)
		})
	}
}

// What the user names as failure domains, Cluster API spreads the control plane over.
func TestReconcile_publishesFailureDomains(t *testing.T) {
	w := newWorld(t, func(obj *rkev1.RKECluster, _ *clusterv1.Cluster) {
		obj.Spec.FailureDomains = []clusterv1.FailureDomain{{Name: "fra1", ControlPlane: new(true)}, {Name: "ams3"}}
	})
	w.reconcile(t)
	require.Equal(t, w.obj.Spec.FailureDomains, w.obj.Status.FailureDomains)
	w.obj.Spec.FailureDomains = nil
	require.NoError(t, w.client.Update(t.Context(), w.obj))
	w.reconcile(t)
	require.Empty(t, w.obj.Status.FailureDomains)
}

// A cluster that is paused later, or loses its owner, stays what it is: its machines must not be held up by it.
func TestReconcile_neverGoesBack(t *testing.T) {
	w := newWorld(t, nil)
	w.reconcile(t)
	w.cluster.Spec.Paused = new(true)
	w.update(t)
	testkit.ExpectCondition(t, w.obj, rkev1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	testkit.ExpectCondition(t, w.obj, rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	require.True(t, *w.obj.Status.Initialization.Provisioned)
	w.obj.OwnerReferences = nil
	w.update(t)
	require.True(t, *w.obj.Status.Initialization.Provisioned)
}

// What it waits for, and what is not ours, leaves it as it is; when that is over it is provisioned.
func TestReconcile_waits(t *testing.T) {
	owned := func(change func(*metav1.OwnerReference)) func(*world) {
		return func(w *world) {
			ref := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: w.cluster.Name, UID: w.cluster.UID}
			change(&ref)
			w.obj.OwnerReferences = []metav1.OwnerReference{ref}
		}
	}
	own := owned(func(*metav1.OwnerReference) {})
	annotated := func(name string) func(*world) {
		return func(w *world) { w.obj.Annotations = map[string]string{name: ""} }
	}
	plain := func(w *world) { w.obj.Annotations = nil }
	for what, tt := range map[string]struct {
		change, mend func(*world)
		reason       string // of Ready; empty where nothing is told
	}{
		"its Cluster is paused": {func(w *world) { w.cluster.Spec.Paused = new(true) }, func(w *world) { w.cluster.Spec.Paused = nil },
			clusterv1.PausedReason},
		"it is paused itself":               {annotated(clusterv1.PausedAnnotation), plain, clusterv1.PausedReason},
		"it is managed elsewhere":           {annotated(clusterv1.ManagedByAnnotation), plain, ""},
		"nobody owns it":                    {func(w *world) { w.obj.OwnerReferences = nil }, own, rkev1.WaitingForOwnerReason},
		"a Cluster that is gone":            {owned(func(ref *metav1.OwnerReference) { ref.Name = "gone" }), own, rkev1.WaitingForOwnerReason},
		"one of the same name, another UID": {owned(func(ref *metav1.OwnerReference) { ref.UID = "other" }), own, rkev1.WaitingForOwnerReason},
		"another kind":                      {owned(func(ref *metav1.OwnerReference) { ref.Kind = "Machine" }), own, rkev1.WaitingForOwnerReason},
		"another group, then an older version of Cluster API's": {owned(func(ref *metav1.OwnerReference) { ref.APIVersion = "management.cattle.io/v3" }),
			owned(func(ref *metav1.OwnerReference) { ref.APIVersion = "cluster.x-k8s.io/v1beta1" }), rkev1.WaitingForOwnerReason},
		"it is another manager's": {func(w *world) {
			w.obj.Labels = map[string]string{clusterv1.WatchLabel: "green"}
			w.r = rkecluster.New(rkecluster.Options{Client: w.client, WatchFilter: "blue"})
		}, func(w *world) { w.obj.Labels[clusterv1.WatchLabel] = "blue" }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, nil)
			tt.change(w)
			w.update(t)
			require.Nil(t, w.obj.Status.Initialization.Provisioned)
			if tt.reason == "" {
				require.Empty(t, w.obj.Status.Conditions)
			} else {
				testkit.ExpectCondition(t, w.obj, rkev1.ReadyCondition, metav1.ConditionFalse, tt.reason)
			}
			if tt.reason == clusterv1.PausedReason {
				testkit.ExpectCondition(t, w.obj, rkev1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
			}
			tt.mend(w)
			w.update(t)
			require.True(t, w.obj.Status.Ready)
		})
	}
}

func TestReconcile_goneOrGoing(t *testing.T) {
	w := newWorld(t, func(obj *rkev1.RKECluster, _ *clusterv1.Cluster) { obj.Finalizers = []string{"x/keeps"} })
	require.NoError(t, w.client.Delete(t.Context(), w.obj))
	w.reconcile(t)
	require.Empty(t, w.obj.Status.Conditions, "nothing is made for what goes")
	w.obj.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), w.obj))
	testkit.ExpectReconciled(t, w.r, w.obj)
}

func TestReconcile_errorsAreTriedAgain(t *testing.T) {
	w := newWorld(t, nil)
	fails := errors.New("the API server is away")
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)}
	get := func(of client.Object) *rkecluster.Reconciler {
		return rkecluster.New(rkecluster.Options{Client: interceptor.NewClient(w.client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, cluster := obj.(*clusterv1.Cluster); cluster == (of != nil) {
					return fails
				}
				return c.Get(ctx, key, obj, opts...)
			}})})
	}
	_, err := get(nil).Reconcile(t.Context(), request)
	require.ErrorIs(t, err, fails)
	_, err = get(w.cluster).Reconcile(t.Context(), request)
	require.EqualError(t, err, "reading the Cluster c1: the API server is away")

	writes := rkecluster.New(rkecluster.Options{Client: interceptor.NewClient(w.client, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return fails
		}})})
	_, err = writes.Reconcile(t.Context(), request)
	require.EqualError(t, err, "writing the status: the API server is away")
}

// In a real manager the Cluster wakes its infrastructure: nothing polls.
func TestRegister_followsTheCluster(t *testing.T) {
	w := newWorld(t, func(_ *rkev1.RKECluster, c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	mgr, err := ctrl.NewManager(testkit.Config(t), ctrl.Options{Scheme: w.client.Scheme(), Controller: capi.ControllerOptions(), Metrics: server.Options{BindAddress: "0"}})
	require.NoError(t, err)
	require.NoError(t, rkecluster.New(rkecluster.Options{Client: mgr.GetClient()}).Register(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	await := func(ready bool) {
		testkit.Eventually(t, 2*time.Minute, func() error {
			testkit.ExpectExists(t, w.client, w.obj)
			if len(w.obj.Status.Conditions) == 0 || w.obj.Status.Ready != ready {
				return errors.New("not yet")
			}
			return nil
		})
	}
	await(false)
	w.cluster.Spec.Paused = nil
	require.NoError(t, w.client.Update(t.Context(), w.cluster))
	await(true)
}
