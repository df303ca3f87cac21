package step_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/controllers/step"
)

func TestPace(t *testing.T) {
	pace, now := step.NewPace(), time.Now()
	conditions := func(status metav1.ConditionStatus, message string, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, Message: message, ObservedGeneration: generation}}
	}
	before := conditions(metav1.ConditionFalse, "0 of 3 machines", 1)
	progress := conditions(metav1.ConditionFalse, "1 of 3 machines", 1)
	require.Zero(t, pace.Wait("a", before, progress, now))
	require.Equal(t, 3*time.Second, pace.Wait("a", before, progress, now), "the burst is used up")
	require.Zero(t, pace.Wait("b", before, progress, now), "another object")
	require.Zero(t, pace.Wait("a", before, conditions(metav1.ConditionTrue, "", 1), now), "it turned")
	require.Zero(t, pace.Wait("a", before, conditions(metav1.ConditionFalse, "0 of 3 machines", 2), now), "another generation")
	require.Zero(t, pace.Wait("a", nil, progress, now), "a new condition")
	require.Zero(t, pace.Wait("a", before, progress, now.Add(3*time.Second)))
	require.Zero(t, (*step.Pace)(nil).Wait("a", before, progress, now))
}
