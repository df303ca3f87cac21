package workload

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxForgotten bounds how many Nodes are deleted at a time: a cluster may take long for each.
const maxForgotten = 10

// ForgetNodes deletes those Nodes of a cluster that forget picks, as a cloud's controller manager does with a Node whose server is gone: a kubelet that
// finds a Node of its name takes it as it is, with a provider ID that cannot be changed. Nodes that a kubelet reports stay, for that registers once,
// when it starts; they are returned, and so are those that are too many or could not be deleted. Nothing is done while the cluster cannot be reached.
func (c *Clusters) ForgetNodes(ctx context.Context, cluster client.ObjectKey, forget func(*corev1.Node) bool) ([]corev1.Node, error) {
	api, nodes, err := c.nodes(ctx, cluster)
	if api == nil || err != nil {
		return nil, err
	}
	deleted, stay := 0, []corev1.Node(nil)
	for i := range nodes {
		node := &nodes[i]
		if !forget(node) {
			continue
		}
		if !isSilent(node) || deleted == maxForgotten {
			stay = append(stay, *node)
			continue
		}
		deleted++
		// As it was looked at: a kubelet may report it again, or have registered another of its name.
		same := client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
		if err = client.IgnoreNotFound(api.Delete(ctx, node.DeepCopy(), same)); err != nil {
			err = fmt.Errorf("deleting the Node %s of an earlier server in cluster %s: %w", node.Name, cluster, err)
			deleted, stay = maxForgotten, append(stay, *node)
		}
	}
	return stay, err
}

// isSilent reports whether the kubelet of a Node has not been heard of for so long that the cluster says so.
func isSilent(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}
