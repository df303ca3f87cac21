package capi

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Clusters is the way into workload clusters, by the kubeconfig Secrets that Cluster API keeps.
type Clusters struct {
	cache clustercache.ClusterCache
	nodes listeners
}

// ProviderID finds the provider ID of the Node that carries the UID of a CAPI Machine in its label rke.cattle.io/machine. It
// is empty while the cluster cannot be reached, or has no such Node, or the Node has none yet; the callbacks given to OnNode
// then tell when to ask again.
func (c *Clusters) ProviderID(ctx context.Context, cluster client.ObjectKey, machine types.UID) (string, error) {
	reader, err := c.cache.GetReader(ctx, cluster)
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reaching cluster %s: %w", cluster, err)
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.MatchingLabels{rkev1.NodeMachineLabel: string(machine)}); err != nil {
		return "", fmt.Errorf("looking for the Node of machine %s in cluster %s: %w", machine, cluster, err)
	}
	for i := range nodes.Items {
		if id := nodes.Items[i].Spec.ProviderID; id != "" {
			return id, nil
		}
	}
	return "", c.watchNodes(ctx, cluster)
}

// Connected reports whether a Cluster's API server can be asked.
func (c *Clusters) Connected(ctx context.Context, cluster client.ObjectKey) bool {
	_, err := c.cache.GetReader(ctx, cluster)
	return err == nil
}
