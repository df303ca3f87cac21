package managementcluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/limit/fairqueue"
)

// nameIndex indexes provisioning Clusters by the name of their management Cluster.
const nameIndex = "drover.management-cluster"

// totalsDelay is how long changes of Nodes are collected.
const totalsDelay = time.Second

// Register adds the controller to a manager, whose scheme must know the kinds of CAPI, rke.cattle.io,
// provisioning.cattle.io and management.cattle.io.
func (r *Reconciler) Register(ctx context.Context, mgr manager.Manager) error {
	name := func(obj client.Object) []string {
		if name := obj.GetAnnotations()[provv1.ManagementClusterNameAnnotation]; name != "" {
			return []string{name}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &provv1.Cluster{}, nameIndex, name); err != nil {
		return fmt.Errorf("indexing provisioning Clusters: %w", err)
	}
	workers := max(r.Workers, 1)
	wake := handler.EnqueueRequestsFromMapFunc
	edited := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld, e.ObjectNew
			return was.GetDeletionTimestamp().IsZero() != is.GetDeletionTimestamp().IsZero() || len(was.GetFinalizers()) != len(is.GetFinalizers())
		}})
	err := builder.ControllerManagedBy(mgr).Named("managementcluster").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: fairqueue.New(workers)}).
		For(&provv1.Cluster{}).
		Watches(&v3.Cluster{}, wake(r.ofManagement), builder.WithPredicates(edited)).
		Watches(&rkev1.RKEControlPlane{}, wake(ofNamesake)).
		Watches(&clusterv1.Cluster{}, wake(ofNamesake), builder.WithPredicates(edited)).
		WatchesRawSource(source.Func(r.listen)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of management Clusters: %w", err)
	}
	return nil
}

// listen is the watch of Nodes. A hostile cluster's Nodes change at any rate, so that changes are
// collected: a delayed request is in the queue once.
func (r *Reconciler) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if r.Totals != nil {
		r.Totals.OnTotals(func(cluster client.ObjectKey) {
			queue.AddAfter(reconcile.Request{NamespacedName: cluster}, totalsDelay)
		})
	}
	return nil
}

// ofManagement wakes the owner of a management Cluster, and the Clusters that wait for its name.
func (r *Reconciler) ofManagement(ctx context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	if management, ok := obj.(*v3.Cluster); ok {
		ref := management.Spec.ProvisioningCluster
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}})
	}
	waiting := &provv1.ClusterList{}
	if err := r.Client.List(ctx, waiting, client.MatchingFields{nameIndex: obj.GetName()}); err != nil {
		return requests // the cache is being stopped
	}
	for i := range waiting.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&waiting.Items[i])})
	}
	return requests
}

// ofNamesake wakes the provisioning Cluster of the name: rendered objects have its name.
func ofNamesake(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}
