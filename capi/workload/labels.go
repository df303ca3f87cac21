package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	same := node.Annotations[labelsAnnotation] == named
	for key, value := range labels {
		found, ok := node.Labels[key]
		same = same && ok && found == value
	}
	if same {
		return nil
	}
	patch := &unstructured.Unstructured{}
	patch.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	patch.SetName(name)
	patch.SetUID(node.UID)
	patch.SetLabels(labels)
	patch.SetAnnotations(map[string]string{labelsAnnotation: named})
	err = api.Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(labelOwner), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling the Node %s of cluster %s: %w", name, cluster, err)
	}
	return nil
}
