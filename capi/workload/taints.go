package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// taintOwner is the field manager of a Node's taints.
	taintOwner = "drover-node-taints"
	// taintsAnnotation on a Node names those that it has from us, by key and effect: what is not named any more is taken away.
	taintsAnnotation = "drover.cattle.io/taints"
)

// TaintNode gives a Node its machine's taints, also those that were edited after its kubelet had registered it. Taints of others stay. It does nothing while the
// cluster cannot be reached or has no such Node.
func (c *Clusters) TaintNode(ctx context.Context, cluster client.ObjectKey, name string, taints []corev1.Taint) error {
	reached, err := c.cache.connected(cluster)
	if err != nil {
		return nil //nolint:nilerr // there is no way yet
	}
	api := reached.client
	node := &corev1.Node{}
	if err := api.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	merged, named := merge(node.Spec.Taints, taints, strings.Split(node.Annotations[taintsAnnotation], ","))
	same := slices.EqualFunc(node.Spec.Taints, merged, func(a, b corev1.Taint) bool { return nameOf(a) == nameOf(b) && a.Value == b.Value })
	if same && node.Annotations[taintsAnnotation] == named {
		return nil
	}
	node.Spec.Taints = merged
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, taintsAnnotation, named)
	// The list is one field to the API server: a change of somebody else's in between is a conflict, and looked at again.
	err = api.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(taintOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("tainting the Node %s of cluster %s: %w", name, cluster, err)
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
