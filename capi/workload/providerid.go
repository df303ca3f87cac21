package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Server is what is known of a CAPI Machine's server, to find the Node that it became.
type Server struct {
	// Machine is the CAPI Machine's UID.
	Machine types.UID
	// Name and Addresses of the server.
	Name      string
	Addresses []string
	// ProviderID is given to a Node that has none, and whose kubelet waits for no cloud controller to give it one.
	ProviderID string
}

// ProviderID is that of the Node that a server became under a foreign bootstrap provider (under ours, the plan gives the Node its ID): the one with the CAPI Machine's UID in its label rke.cattle.io/machine, else the only
// one with an address of the server's, else the one of its name. It gets that label, and a provider ID if it has none. It is empty while the
// cluster cannot be reached, or has no such Node; the callbacks given to OnNode then tell when to ask again.
func (c *Clusters) ProviderID(ctx context.Context, cluster client.ObjectKey, server Server) (string, error) {
	reached, err := c.connected(cluster)
	if err != nil {
		return "", nil //nolint:nilerr // there is no way yet
	}
	api := reached.client
	var nodes corev1.NodeList
	if err := api.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("looking for the Node of machine %s in cluster %s: %w", server.Machine, cluster, err)
	}
	found := server.node(nodes.Items)
	if found == nil || found.Spec.ProviderID == "" && (server.ProviderID == "" || awaitsCloud(found)) {
		// After the look: the watch begins with all Nodes that are there, so that nothing is missed.
		err := c.Watch(ctx, cluster, &nodeWatcher{cluster: cluster, clusters: c})
		if err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
			return "", fmt.Errorf("watching the Nodes of cluster %s: %w", cluster, err)
		}
		return "", nil
	}
	node := found.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, rkev1.NodeMachineLabel, string(server.Machine))
	node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, server.ProviderID)
	if node.Spec.ProviderID == found.Spec.ProviderID && node.Labels[rkev1.NodeMachineLabel] == found.Labels[rkev1.NodeMachineLabel] {
		return node.Spec.ProviderID, nil
	}
	if err := api.Patch(ctx, node, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("labelling the Node %s of cluster %s: %w", found.Name, cluster, err)
	}
	return node.Spec.ProviderID, nil
}

// node is the server's among all of its cluster; nil if there is none, or if it may be one of several.
func (s Server) node(nodes []corev1.Node) *corev1.Node {
	var named *corev1.Node
	var addressed []*corev1.Node
	for i := range nodes {
		node := &nodes[i]
		if owner := node.Labels[rkev1.NodeMachineLabel]; owner == string(s.Machine) {
			return node
		} else if owner != "" {
			continue
		}
		if node.Name == s.Name || node.Labels[corev1.LabelHostname] == s.Name {
			named = node
		}
		if slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
			return a.Type != corev1.NodeHostName && a.Address != "" && slices.Contains(s.Addresses, a.Address)
		}) {
			addressed = append(addressed, node)
		}
	}
	switch {
	case len(addressed) == 1:
		return addressed[0]
	case len(addressed) > 1 || s.Name == "":
		return nil
	}
	return named
}

// awaitsCloud reports whether a cloud's own controller is to give a Node its provider ID.
func awaitsCloud(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" })
}
