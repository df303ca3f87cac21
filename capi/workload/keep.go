package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// nodeOwner is the field manager of what a Node has from us.
	nodeOwner = "drover-nodes"
	// labelsAnnotation and taintsAnnotation on a Node name the labels, and the taints by key and effect, that it has from us: what is not named any more is taken away.
	labelsAnnotation = "drover.cattle.io/labels"
	taintsAnnotation = "drover.cattle.io/taints"
)

// KeepNode gives a Node its machine's labels and taints: those that its kubelet must not set itself, and what was edited after the kubelet had registered the
// Node. Those of others stay. It does nothing while the cluster cannot be reached or has no such Node.
func (c *Clusters) KeepNode(ctx context.Context, cluster client.ObjectKey, name string, labels map[string]string, taints []corev1.Taint) error {
	reached, err := c.connected(cluster)
	if err != nil {
		return nil //nolint:nilerr // there is no way yet
	}
	api := reached.client
	node := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	for key := range strings.SplitSeq(node.Annotations[labelsAnnotation], ",") {
		delete(node.Labels, key) // also where the kubelet has set it, at its registration
	}
	for key, value := range labels {
		metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, labelsAnnotation, strings.Join(slices.Sorted(maps.Keys(labels)), ","))
	named := ""
	node.Spec.Taints, named = merge(node.Spec.Taints, taints, strings.Split(node.Annotations[taintsAnnotation], ","))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, taintsAnnotation, named)
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	// The taints are one field to the API server: a change of somebody else's in between is a conflict, and looked at again.
	err = api.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(nodeOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling and tainting the Node %s of cluster %s: %w", name, cluster, err)
	}
	return nil
}

// merge puts the wanted taints into those that are there, and takes away what we gave earlier and is not wanted any more.
func merge(there, wanted []corev1.Taint, ours []string) (merged []corev1.Taint, named string) {
	var names []string
	for _, taint := range wanted {
		names = append(names, nameOf(taint))
	}
	for _, taint := range there {
		name := nameOf(taint)
		at := slices.Index(names, name)
		switch {
		case at >= 0:
			taint.Value = wanted[at].Value // and the time since when it has it stays
			merged = append(merged, taint)
		case !slices.Contains(ours, name):
			merged = append(merged, taint)
		}
	}
	for _, taint := range wanted {
		if !slices.ContainsFunc(merged, func(has corev1.Taint) bool { return nameOf(has) == nameOf(taint) }) {
			merged = append(merged, taint)
		}
	}
	slices.Sort(names)
	return merged, strings.Join(slices.Compact(names), ",")
}

// nameOf is what tells taints of a Node apart.
func nameOf(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }
