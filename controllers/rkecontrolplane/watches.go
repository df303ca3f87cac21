package rkecontrolplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane/authorities"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/limit/fairqueue"
	"github.com/drover-project/drover/planner"
)

// Register adds the controller and the cache of plan Secrets to a manager, whose scheme must know
// the kinds of CAPI and of rke.cattle.io.
func (r *Reconciler) Register(mgr manager.Manager, plans cache.Cache) error {
	if err := mgr.Add(plans); err != nil {
		return fmt.Errorf("adding the cache of plan Secrets: %w", err)
	}
	// A changed Secret wakes the control planes that name it, without a list of all control planes.
	referenced := func(obj client.Object) []string {
		one, ok := obj.(*rkev1.RKEControlPlane)
		if !ok {
			return nil
		}
		var keys []string
		for _, key := range planner.References(one.Spec) {
			keys = append(keys, key.Kind+"/"+credential.Parse(one.Namespace, key.Name).String())
		}
		return keys
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &rkev1.RKEControlPlane{}, referenceIndex, referenced); err != nil {
		return fmt.Errorf("indexing RKEControlPlanes: %w", err)
	}
	workers := max(r.Workers, 1)
	wake := handler.EnqueueRequestsFromMapFunc
	// Changes of our own status are ignored.
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.GetGeneration() != is.GetGeneration() || !maps.Equal(was.GetLabels(), is.GetLabels()) || !maps.Equal(was.GetAnnotations(), is.GetAnnotations()) ||
			!slices.EqualFunc(was.GetOwnerReferences(), is.GetOwnerReferences(), func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
	}}
	return builder.ControllerManagedBy(mgr).Named("rkecontrolplane").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).
		For(&rkev1.RKEControlPlane{}, builder.WithPredicates(changed)).
		Watches(&clusterv1.Cluster{}, wake(ofCluster)).
		Watches(&clusterv1.Machine{}, wake(r.ofMember)).
		Watches(&rkev1.RKEBootstrap{}, wake(r.ofMember), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&rkev1.RKECluster{}, wake(r.ofMember), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Secret{}, wake(r.ofSecret)).
		WatchesMetadata(&corev1.ConfigMap{}, wake(r.ofConfigMap)).
		WatchesRawSource(source.Kind(plans, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, obj *corev1.Secret) []reconcile.Request { return r.ofMember(ctx, obj) }),
			predicate.TypedFuncs[*corev1.Secret]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Secret]) bool { return planChanged(e.ObjectOld, e.ObjectNew) }})).
		WatchesRawSource(source.Func(r.listen)).
		Complete(r)
}

// listen is the watch of connections to workload clusters, and of infra machines, whose kinds can
// be added and removed.
func (r *Reconciler) listen(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	wake := func(namespace, cluster string) {
		for _, request := range r.ofClusterNamed(ctx, namespace, cluster) {
			queue.Add(request)
		}
	}
	r.Clusters.OnNode(func(cluster client.ObjectKey, machine types.UID) {
		if machine == "" {
			wake(cluster.Namespace, cluster.Name)
		}
	})
	if r.OnInfraMachine != nil {
		r.OnInfraMachine(wake)
	}
	return nil
}

func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	cluster, ok := obj.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "RKEControlPlane" || cluster.Spec.ControlPlaneRef.APIGroup != rkev1.GroupVersion.Group {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}}}
}

// ofMember maps an object to the control plane by the label with the Cluster's name.
func (r *Reconciler) ofMember(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.ofClusterNamed(ctx, obj.GetNamespace(), obj.GetLabels()[clusterv1.ClusterNameLabel])
}

func (r *Reconciler) ofClusterNamed(ctx context.Context, namespace, name string) []reconcile.Request {
	cluster := &clusterv1.Cluster{}
	if name == "" || r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, cluster) != nil {
		return nil
	}
	return ofCluster(ctx, cluster)
}

// ofSecret wakes the control planes that own the Secret, or whose specification names it. Plan
// Secrets have their own watch.
func (r *Reconciler) ofSecret(ctx context.Context, obj client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(obj)
	if owner != nil && owner.Kind == "RKEBootstrap" {
		return nil
	}
	if owner != nil && owner.Kind == "RKEControlPlane" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}}}
	}
	if name, is := strings.CutSuffix(obj.GetName(), stateSuffix); is {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	}
	for _, purpose := range append(slices.Clone(authorities.Purposes), secret.Kubeconfig) {
		if cluster, is := strings.CutSuffix(obj.GetName(), "-"+string(purpose)); is {
			return append(r.ofClusterNamed(ctx, obj.GetNamespace(), cluster), r.naming(ctx, planner.SecretKind, obj)...)
		}
	}
	return r.naming(ctx, planner.SecretKind, obj)
}

// ofConfigMap wakes the control planes whose specification names it, and all of them for the
// catalogue of releases.
func (r *Reconciler) ofConfigMap(ctx context.Context, obj client.Object) []reconcile.Request {
	if client.ObjectKeyFromObject(obj) == r.Releases {
		return r.all(ctx)
	}
	return r.naming(ctx, planner.ConfigMapKind, obj)
}

// naming are the control planes whose specification names an object.
func (r *Reconciler) naming(ctx context.Context, kind string, obj client.Object) []reconcile.Request {
	return r.all(ctx, client.MatchingFields{referenceIndex: kind + "/" + client.ObjectKeyFromObject(obj).String()})
}

// referenceIndex finds RKEControlPlanes by the kind, namespace and name of objects that their
// specification names.
const referenceIndex = "references"

func (r *Reconciler) all(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	list := &rkev1.RKEControlPlaneList{}
	if err := r.Client.List(ctx, list, opts...); err != nil {
		return nil
	}
	var found []reconcile.Request
	for i := range list.Items {
		found = append(found, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return found
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines;machines/status,verbs=patch
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkeclusters;rkebootstraps,verbs=list;watch
// The API server lets the manager create the aggregated role only if the manager has all its
// permissions: Cluster API's manager labels, owns and deletes these objects.
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkecontrolplanes,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rke.cattle.io,resources=rkecontrolplanes/status;rkecontrolplanes/finalizers,verbs=get;update;patch
