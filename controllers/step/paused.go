package step

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Paused reports whether an object has to be left as it is, because it or its Cluster is paused, and keeps the condition Paused, which says which of them. The
// Cluster may be nil.
func (c *Conditions) Paused(cluster *clusterv1.Cluster, obj client.Object) bool {
	switch {
	case annotations.HasPaused(obj):
		c.True(rkev1.PausedCondition, clusterv1.PausedReason, "it has the annotation "+clusterv1.PausedAnnotation)
	case cluster != nil && ptr.Deref(cluster.Spec.Paused, false):
		c.True(rkev1.PausedCondition, clusterv1.PausedReason, "the Cluster is paused: spec.paused is true")
	default:
		c.False(rkev1.PausedCondition, clusterv1.NotPausedReason, "")
		return false
	}
	return true
}
