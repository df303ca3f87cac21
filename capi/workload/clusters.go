// Package workload is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps, with limits on what such a kubeconfig may
// say and on what the server behind it may answer (decision 0010).
//
// It reads: CAPI Clusters, Secrets <cluster>-kubeconfig, and the Nodes of workload clusters. It writes: the condition KubeconfigAccepted and
// events on Clusters, and on Nodes their labels and a provider ID.
package workload

import (
	"context"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clusters is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps.
type Clusters struct {
	cache *clusterCache
	nodes listeners
}

// New adds what keeps connections to the workload clusters of the Clusters with the label cluster.x-k8s.io/watch-filter of the given value,
// or of all. The manager must not be started yet.
func New(ctx context.Context, mgr manager.Manager, filter string) (*Clusters, error) {
	clusters := &Clusters{}
	cached, err := newClusterCache(ctx, mgr, filter, func(cluster client.ObjectKey) { clusters.nodes.call(cluster, "") })
	if err != nil {
		return nil, err
	}
	clusters.cache = cached
	return clusters, nil
}

// Cache is what Cluster API's own controllers reach workload clusters by.
func (c *Clusters) Cache() clustercache.ClusterCache { return c.cache }

// Through is the address of the control plane's server by which a cluster is reached, and empty where it is reached as its kubeconfig says. OnNode tells when that changes.
func (c *Clusters) Through(cluster client.ObjectKey) string {
	if known := c.cache.find(cluster); known != nil {
		return known.by()
	}
	return ""
}

// Proxied reports whether the manager has a proxy for the address in a cluster's kubeconfig. Then no server of its control plane is called in its place. OnNode
// tells when that changes.
func (c *Clusters) Proxied(cluster client.ObjectKey) bool {
	known := c.cache.find(cluster)
	return known != nil && known.proxied.Load()
}

// Reaches reports whether a cluster's API answers the manager. OnNode tells when that changes.
func (c *Clusters) Reaches(cluster client.ObjectKey) bool {
	known := c.cache.find(cluster)
	return known != nil && known.answers()
}
