package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// A machine is heard of when it becomes this manager's and when it ends to be, for its place among those that wait is given up.
func TestWatches_ofThisManagersMachines(t *testing.T) {
	labelled := func(value string) *metav1.PartialObjectMetadata {
		m := metadataOf(rkev1.MachineGroupVersion.WithKind("AcmeMachine"))
		m.Generation, m.ResourceVersion, m.Labels = 1, value, map[string]string{clusterv1.WatchLabel: value}
		return m
	}
	o := Options{WatchFilter: "blue"}
	relabelled := predicate.And(o.watches(), predicate.Or(changed(), o.handedOver()))
	for name, tt := range map[string]struct {
		was, is string
		want    bool
	}{
		"made this manager's": {"green", "blue", true},
		"given away":          {"blue", "green", true},
		"another's":           {"green", "red", false},
		"a resync":            {"blue", "blue", true},
		"another's resync":    {"green", "green", false},
	} {
		require.Equal(t, tt.want, passes(relabelled, labelled(tt.was), labelled(tt.is)), name)
	}
	require.True(t, o.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("blue")}))
	require.False(t, o.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("green")}))
	require.True(t, Options{}.watches().Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: labelled("green")}))
}
