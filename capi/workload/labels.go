package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// labelOwner is the field manager of a Node's labels.
	labelOwner = "drover-node-labels"
	// labelsAnnotation on a Node names those that it has from us: what is not named any more is taken away.
	labelsAnnotation = "drover.cattle.io/labels"
)

// LabelNode gives a Node its machine's labels: those that its kubelet must not set itself, and what was edited after the kubelet had registered the
// Node. Labels of others stay. It does nothing while the cluster cannot be reached or has no such Node.
func (c *Clusters) LabelNode(ctx context.Context, cluster client.ObjectKey, name string, labels map[string]string) error {
	reached, err := c.cache.connected(cluster)
	if err != nil {
		return nil //nolint:nilerr // there is no way yet
	}
	api := reached.client
	node := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	named := strings.Join(slices.Sorted(maps.Keys(labels)), ",")
	patch, same := map[string]any{}, node.Annotations[labelsAnnotation] == named
	for key, value := range labels {
		found, ok := node.Labels[key]
		patch[key], same = value, same && ok && found == value
	}
	if same {
		return nil
	}
	for key := range strings.SplitSeq(node.Annotations[labelsAnnotation], ",") {
		if _, wanted := labels[key]; !wanted && key != "" {
			patch[key] = nil // also where the kubelet has set it, at its registration
		}
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": patch, "annotations": map[string]string{labelsAnnotation: named}}})
	if err != nil {
		return fmt.Errorf("encoding labels: %w", err)
	}
	err = api.Patch(ctx, node.DeepCopy(), client.RawPatch(types.MergePatchType, content), client.FieldOwner(labelOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling the Node %s of cluster %s: %w", name, cluster, err)
	}
	return nil
}
