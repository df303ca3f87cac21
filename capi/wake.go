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

// woken wakes one of Cluster API's controllers for further objects, which Cluster API does not
// watch.
type woken struct {
	clustercache.ClusterCache

	// further is its source; requests are the controller's requests for a Cluster.
	further func(controller string, requests handler.MapFunc) source.Source
}

// GetClusterSource implements clustercache.ClusterCache.
func (w woken) GetClusterSource(name string, requests func(context.Context, client.Object) []ctrl.Request, opts ...clustercache.GetClusterSourceOption) source.Source {
	connections, further := w.ClusterCache.GetClusterSource(name, requests, opts...), w.further(name, requests)
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		return errors.Join(connections.Start(ctx, queue), further.Start(ctx, queue))
	})
}

// pauses are Clusters that are paused or unpaused. Only the controller of Machines does not watch
// this: the Machines of a MachineSet are woken by the set, and a Machine without one would never
// continue if it was created while its Cluster was paused.
func pauses(mgr manager.Manager, filter string) func(string, handler.MapFunc) source.Source {
	return func(controller string, requests handler.MapFunc) source.Source {
		scheme, log := mgr.GetScheme(), mgr.GetLogger().WithValues("controller", controller)
		return source.Kind(mgr.GetCache(), client.Object(&clusterv1.Cluster{}), handler.EnqueueRequestsFromMapFunc(requests),
			predicates.ClusterPausedTransitions(scheme, log), predicates.ResourceHasFilterLabel(scheme, log, filter))
	}
}

// controlPlanesMade are RKEControlPlanes without an owner. Cluster API watches those that its
// Cluster owns. For a Cluster whose former control plane was replaced, it checks for the new one
// only with its retries, in the end every quarter of an hour.
func controlPlanesMade(mgr manager.Manager, filter string) func(string, handler.MapFunc) source.Source {
	return func(string, handler.MapFunc) source.Source {
		// The same type as Cluster API uses: the event comes from the cache that the controller
		// reads.
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
