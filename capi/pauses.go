package capi

import (
	"context"
	"errors"

	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// pauses wakes a controller for what is in a Cluster also when that is paused or goes on. Cluster API's controller of Machines alone does not
// watch for it: those of MachineSets are woken by their sets, and one that stands alone would stay as it was made while its Cluster was paused.
type pauses struct {
	clustercache.ClusterCache

	mgr    manager.Manager
	filter string
}

// GetClusterSource implements clustercache.ClusterCache.
func (p pauses) GetClusterSource(name string, requests func(context.Context, client.Object) []ctrl.Request, opts ...clustercache.GetClusterSourceOption) source.Source {
	connections := p.ClusterCache.GetClusterSource(name, requests, opts...)
	scheme, log := p.mgr.GetScheme(), p.mgr.GetLogger().WithValues("controller", name)
	clusters := source.Kind(p.mgr.GetCache(), client.Object(&clusterv1.Cluster{}), handler.EnqueueRequestsFromMapFunc(requests),
		predicates.ClusterPausedTransitions(scheme, log), predicates.ResourceHasFilterLabel(scheme, log, p.filter))
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		return errors.Join(connections.Start(ctx, queue), clusters.Start(ctx, queue))
	})
}
