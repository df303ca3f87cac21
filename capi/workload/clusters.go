// Package workload is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps, with limits on what such a kubeconfig may
// say and on what the server behind it may answer (decision 0010).
//
// It reads: CAPI Clusters, Secrets <cluster>-kubeconfig, and the Nodes of workload clusters. It writes: the condition KubeconfigAccepted and
// events on Clusters, and on Nodes their labels and a provider ID.
package workload

import (
	"context"
	"fmt"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Clusters is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps.
type Clusters struct {
	cache clustercache.ClusterCache
	nodes listeners
}

// New adds what keeps connections to the workload clusters of the Clusters with the label cluster.x-k8s.io/watch-filter of the given value,
// or of all. The manager must not be started yet.
func New(ctx context.Context, mgr manager.Manager, filter string) (*Clusters, error) {
	cached, err := newClusterCache(ctx, mgr, filter)
	if err != nil {
		return nil, err
	}
	clusters := &Clusters{cache: cached}
	connections, err := controller.New("workload-connections", mgr, controller.Options{
		Reconciler: reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
			clusters.nodes.call(request.NamespacedName, "")
			return ctrl.Result{}, nil
		})})
	if err != nil {
		return nil, fmt.Errorf("adding the controller of connections: %w", err)
	}
	source := cached.GetClusterSource("workload-connections", func(_ context.Context, cluster client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
	})
	if err := connections.Watch(source); err != nil {
		return nil, fmt.Errorf("listening for connections: %w", err)
	}
	return clusters, nil
}

// Cache is what Cluster API's own controllers reach workload clusters by.
func (c *Clusters) Cache() clustercache.ClusterCache { return c.cache }

// Reaches reports whether the manager has a connection to a cluster's API. OnNode tells when that changes.
func (c *Clusters) Reaches(cluster client.ObjectKey) bool {
	_, err := c.cache.GetClient(context.Background(), cluster)
	return err == nil
}
