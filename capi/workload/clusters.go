// Package workload is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps, with limits on what such a kubeconfig may
// say and on what the server behind it may answer (decision 0010).
//
// It reads: CAPI Clusters, Secrets <cluster>-kubeconfig, and the Nodes of workload clusters. It writes: the condition KubeconfigAccepted and
// events on Clusters, and on Nodes their label rke.cattle.io/machine and a provider ID.
package workload

import (
	"context"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
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
	return clusters, clusters.register(mgr)
}

// Cache is what Cluster API's own controllers reach workload clusters by.
func (c *Clusters) Cache() clustercache.ClusterCache { return c.cache }
