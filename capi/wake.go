package capi

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// woken wakes one of Cluster API's controllers also for what Cluster API does not watch.
type woken struct {
	clustercache.ClusterCache

	// further is the source of it; requests are those of the controller's for a Cluster.
	further func(controller string, requests handler.MapFunc) source.Source
}

// GetClusterSource implements clustercache.ClusterCache.
func (w woken) GetClusterSource(name string, requests func(context.Context, client.Object) []ctrl.Request, opts ...clustercache.GetClusterSourceOption) source.Source {
	connections, further := w.ClusterCache.GetClusterSource(name, requests, opts...), w.further(name, requests)
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		return errors.Join(connections.Start(ctx, queue), further.Start(ctx, queue))
	})
}

// pauses are Clusters that are paused or go on. The controller of Machines alone does not watch for it: those of MachineSets are woken by their sets, and one
// that stands alone would stay as it was made while its Cluster was paused.
func pauses(mgr manager.Manager, filter string) func(string, handler.MapFunc) source.Source {
	return func(controller string, requests handler.MapFunc) source.Source {
		scheme, log := mgr.GetScheme(), mgr.GetLogger().WithValues("controller", controller)
		return source.Kind(mgr.GetCache(), client.Object(&clusterv1.Cluster{}), handler.EnqueueRequestsFromMapFunc(requests),
			predicates.ClusterPausedTransitions(scheme, log), predicates.ResourceHasFilterLabel(scheme, log, filter))
	}
}

// controlPlanesMade are RKEControlPlanes that have no owner yet. Cluster API watches those that it has made its Cluster the owner of; of a Cluster that had one
// before it looks for another only as often as it tries again what has failed: in the end each quarter of an hour.
func controlPlanesMade(mgr manager.Manager, filter string) func(string, handler.MapFunc) source.Source {
	return func(string, handler.MapFunc) source.Source {
		// As Cluster API reads it: what wakes the controller is in the cache that it looks into.
		watched := &unstructured.Unstructured{}
		watched.SetGroupVersionKind(rkev1.GroupVersion.WithKind("RKEControlPlane"))
		no := func(event.UpdateEvent) bool { return false }
		return source.Kind(mgr.GetCache(), client.Object(watched), handler.EnqueueRequestsFromMapFunc(clustersNaming(mgr.GetClient(), filter)), predicate.Funcs{UpdateFunc: no})
	}
}

// clustersNaming finds the Clusters that name a control plane which has no owner.
func clustersNaming(reader client.Reader, filter string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		clusters := &clusterv1.ClusterList{}
		if len(obj.GetOwnerReferences()) > 0 || reader.List(ctx, clusters, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		made := &rkev1.RKEControlPlane{}
		made.Namespace, made.Name = obj.GetNamespace(), obj.GetName()
		var found []ctrl.Request
		for i := range clusters.Items {
			if one := &clusters.Items[i]; made.IsOf(one) && (filter == "" || one.Labels[clusterv1.WatchLabel] == filter) {
				found = append(found, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(one)})
			}
		}
		return found
	}
}
