package facts_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-project/drover/cmd/drover/facts"
)

func TestDecodeObject(t *testing.T) {
	when := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		object map[string]any
		want   facts.Object
	}{
		"a MachineSet that scales up": {
			object: map[string]any{
				"kind": "MachineSet", "metadata": map[string]any{"name": "s", "namespace": "shop"},
				"spec": map[string]any{"replicas": int64(3)},
				"status": map[string]any{"readyReplicas": int64(1), "conditions": []any{
					map[string]any{"type": "ScalingUp", "status": "True", "reason": "ScalingUp", "lastTransitionTime": "2026-03-01T12:00:00Z"}, "nonsense"}},
			},
			want: facts.Object{
				Kind: "MachineSet", Namespace: "shop", Name: "s", Replicas: 3, ReadyReplicas: 1,
				Conditions: []metav1.Condition{{Type: "ScalingUp", Status: metav1.ConditionTrue, Reason: "ScalingUp", LastTransitionTime: metav1.NewTime(when)}},
			},
		},
		"none is ready yet": {
			object: map[string]any{"kind": "MachineDeployment", "spec": map[string]any{"replicas": int64(2)}, "status": map[string]any{"phase": "ScalingUp"}},
			want:   facts.Object{Kind: "MachineDeployment", Phase: "ScalingUp", Replicas: 2},
		},
		"scaled to nothing": {
			object: map[string]any{"spec": map[string]any{"replicas": int64(0)}},
			want:   facts.Object{},
		},
		"no replicas": {
			object: map[string]any{"kind": "Cluster"},
			want:   facts.Object{Kind: "Cluster", Replicas: -1, ReadyReplicas: -1},
		},
		"being deleted": {
			object: map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-03-01T12:00:00Z"}},
			want:   facts.Object{Deleting: true, Replicas: -1, ReadyReplicas: -1},
		},
		"of another shape": {
			object: map[string]any{"spec": map[string]any{"replicas": "three"}, "status": map[string]any{"conditions": "many", "phase": int64(4)}},
			want:   facts.Object{Replicas: -1, ReadyReplicas: -1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, facts.DecodeObject(&unstructured.Unstructured{Object: c.object}))
		})
	}
}

func TestEventTime(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	created := corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at(1))}}
	require.Equal(t, at(1), facts.EventTime(created), "nothing else is filled")
	modern := created
	modern.EventTime = metav1.NewMicroTime(at(2))
	require.Equal(t, at(2), facts.EventTime(modern), "events.k8s.io, seen once")
	old := modern
	old.LastTimestamp = metav1.NewTime(at(3))
	require.Equal(t, at(3), facts.EventTime(old), "core/v1, as the kubelet fills it")
	repeated := modern
	repeated.Series = &corev1.EventSeries{Count: 2}
	require.Equal(t, at(2), facts.EventTime(repeated), "a series that does not say when")
	repeated.Series.LastObservedTime = metav1.NewMicroTime(at(4))
	require.Equal(t, at(4), facts.EventTime(repeated), "events.k8s.io, seen again")
}

// FuzzDecodeObject: objects of other systems have any form, and must not keep what is known from being told.
func FuzzDecodeObject(f *testing.F) {
	f.Add([]byte(`{"kind":"MachineSet","metadata":{"name":"s"},"spec":{"replicas":3},"status":{"readyReplicas":1,"conditions":[{"type":"ScalingUp","status":"True"}]}}`))
	f.Add([]byte(`{"metadata":[],"spec":"x","status":{"conditions":{"type":"Ready"},"phase":[]}}`))
	f.Add([]byte(`{"metadata":{"finalizers":"x","deletionTimestamp":3},"status":{"conditions":[null,1,"x",{"lastTransitionTime":"soon","observedGeneration":"x"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		object := map[string]any{}
		if json.Unmarshal(raw, &object) != nil {
			return
		}
		before, err := json.Marshal(object)
		require.NoError(t, err)
		o := facts.DecodeObject(&unstructured.Unstructured{Object: object})
		if name, ok := object["kind"].(string); ok {
			require.Equal(t, name, o.Kind)
		}
		after, err := json.Marshal(object)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "what was decoded is still the caller's")
	})
}
