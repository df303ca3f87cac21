package machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// watched reports whether a machine is this manager's to work on.
func (o Options) watched(machine metav1.Object) bool {
	return o.WatchFilter == "" || machine.GetLabels()[clusterv1.WatchLabel] == o.WatchFilter
}

// watches lets pass what happens to machines that are, or were until now, this manager's.
func (o Options) watches() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	only := predicate.NewTypedPredicateFuncs(func(machine *metav1.PartialObjectMetadata) bool { return o.watched(machine) })
	only.UpdateFunc = func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return o.watched(e.ObjectOld) || o.watched(e.ObjectNew)
	}
	return only
}

// handedOver lets pass machines that become this manager's, or another's.
func (o Options) handedOver() predicate.TypedPredicate[*metav1.PartialObjectMetadata] {
	return predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
			return o.watched(e.ObjectOld) != o.watched(e.ObjectNew)
		},
	}
}
