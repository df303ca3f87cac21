package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/controllers/step"
)

func TestOutcomesSayWhyAndKeepTheirCause(t *testing.T) {
	cause := errors.New("spec.x is bad")
	require.EqualError(t, step.Wait("NoFile", "file is missing", 0), "NoFile: file is missing")
	require.EqualError(t, step.Progress("Running", "it runs", 0), "Running: it runs")
	stalled := step.Stall("Bad", cause)
	require.EqualError(t, stalled, "Bad: spec.x is bad")
	require.ErrorIs(t, stalled, cause)
}

func TestResult(t *testing.T) {
	result, err := step.Result(nil)
	require.NoError(t, err)
	require.Zero(t, result)

	result, err = step.Result(fmt.Errorf("first: %w", step.Progress("Running", "", time.Minute)))
	require.NoError(t, err)
	require.Equal(t, reconcile.Result{RequeueAfter: time.Minute}, result)

	other := errors.New("no route")
	_, err = step.Result(other)
	require.ErrorIs(t, err, other, "controller-runtime backs off for errors")
}

func TestRun_stepWithoutACondition(t *testing.T) {
	s := newScope()
	require.NoError(t, step.Run(t.Context(), s, step.Of("", "Fine", end(nil))))
	require.Error(t, step.Run(t.Context(), s, step.Of("", "Fine", end(errors.New("no route")))))
	require.Empty(t, s.list)
}

// When the manager stops, or somebody else was faster, nothing was found out about the object.
func TestRun_cancelledSaysNothing(t *testing.T) {
	s := newScope(metav1.Condition{Type: "Mine", Status: metav1.ConditionTrue, Reason: "Fine"})
	err := step.Run(t.Context(), s, step.Of("Mine", "Fine", end(fmt.Errorf("reading: %w", context.Canceled))))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, metav1.ConditionTrue, s.set.Get("Mine").Status)
	require.Zero(t, s.set.Get("Mine").ObservedGeneration)
}

func TestConditions_transitionTimeIsOfTheStatus(t *testing.T) {
	then := metav1.NewTime(time.Unix(500, 0))
	s := newScope(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Waiting", LastTransitionTime: then, ObservedGeneration: 6})
	s.set.False("A", "Broken", "other words")
	require.Equal(t, then, s.set.Get("A").LastTransitionTime, "still False")
	require.EqualValues(t, 7, s.set.Get("A").ObservedGeneration)
	s.set.True("A", "Fine", "")
	require.Equal(t, time.Unix(1000, 0), s.set.Get("A").LastTransitionTime.Time)
}

func TestConditions_observeOnlyWhatWasFoundOutNow(t *testing.T) {
	s := newScope(metav1.Condition{Type: "Old", Status: metav1.ConditionTrue, ObservedGeneration: 3})
	s.set.True("New", "Fine", "")
	s.set.Observe(8)
	s.set.True("Later", "Fine", "")
	require.EqualValues(t, 3, s.set.Get("Old").ObservedGeneration)
	require.EqualValues(t, 8, s.set.Get("New").ObservedGeneration)
	require.EqualValues(t, 8, s.set.Get("Later").ObservedGeneration)
	s.set.Drop("NotThere", "Old")
	require.Nil(t, s.set.Get("Old"))
	require.Len(t, s.list, 2)
}

func TestEmit_kindAndNote(t *testing.T) {
	for name, tt := range map[string]struct {
		now  metav1.Condition
		want string
	}{
		"became true":     {metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "Done", Message: "made it"}, "Normal Done made it"},
		"says nothing":    {metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "Done"}, "Normal Done The condition A is now True"},
		"became false":    {metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Broken"}, "Warning Broken The condition A is now False"},
		"no format":       {metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Broken", Message: "%s %d"}, "Warning Broken %s %d"},
		"unknown":         {now: metav1.Condition{Type: "A", Status: metav1.ConditionUnknown, Reason: "Running"}},
		"of another kind": {now: metav1.Condition{Type: "B", Status: metav1.ConditionTrue, Reason: "Done"}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(2)
			step.Emit(recorder, &corev1.ConfigMap{}, step.Transitions{After: []metav1.Condition{tt.now}, Of: []string{"A"}})
			if tt.want == "" {
				require.Empty(t, recorder.Events)
				return
			}
			require.Equal(t, tt.want, <-recorder.Events)
		})
	}
	recorder := events.NewFakeRecorder(1)
	step.Emit(recorder, &corev1.ConfigMap{}, step.Transitions{Of: []string{"A"}, After: []metav1.Condition{
		{Type: "A", Status: metav1.ConditionFalse, Reason: "Long", Message: strings.Repeat("ä", 5000)}}})
	require.LessOrEqual(t, len(<-recorder.Events), 1024+len("Warning Long "), "the API takes no longer note")
}
