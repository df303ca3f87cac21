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

// ForgetNodes deletes the Nodes of a cluster that forget selects, as a cloud's controller manager
// deletes a Node whose server is gone. Otherwise a kubelet with the same name adopts the old Node,
// with a provider ID that cannot be changed. A Node that a kubelet still reports stays, because a
// kubelet registers only at its start. ForgetNodes returns these Nodes, and those that exceed its
// limit or could not be deleted. It does nothing while the cluster cannot be reached.
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
		// Only in the state that was read: a kubelet may report it again, or have registered
		// another Node with its name.
		same := client.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
		if err = client.IgnoreNotFound(api.Delete(ctx, node.DeepCopy(), same)); err != nil {
			err = fmt.Errorf("deleting the Node %s of an earlier server in cluster %s: %w", node.Name, cluster, err)
			deleted, stay = maxForgotten, append(stay, *node)
		}
	}
	return stay, err
}

// isSilent reports whether the cluster marks a Node as unreachable because its kubelet has been
// silent for too long.
func isSilent(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}
