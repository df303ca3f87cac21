package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/controllers/step"
)

type scope struct {
	list []metav1.Condition
	set  *step.Conditions
}

func (s *scope) Conditions() *step.Conditions { return s.set }

func newScope(list ...metav1.Condition) *scope {
	s := &scope{list: list}
	s.set = step.NewConditions(&s.list, 7, time.Unix(1000, 0))
	return s
}

func end(err error) func(context.Context, *scope) error {
	return func(context.Context, *scope) error { return err }
}

func TestRun(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "y", errors.New("changed"))
	tests := []struct {
		name    string
		err     error
		status  metav1.ConditionStatus
		reason  string
		result  reconcile.Result
		wantErr bool
	}{
		{name: "nil", status: metav1.ConditionTrue, reason: "Fine"},
		{name: "wait", err: step.Wait("NoFile", "file is missing", time.Minute), status: metav1.ConditionFalse, reason: "NoFile",
			result: reconcile.Result{RequeueAfter: time.Minute}},
		{name: "progress", err: step.Progress("Running", "", 0), status: metav1.ConditionUnknown, reason: "Running"},
		{name: "wrapped stall", err: fmt.Errorf("first: %w", step.Stall("Bad", errors.New("spec.x is bad"))),
			status: metav1.ConditionFalse, reason: "Bad"},
		{name: "conflict", err: conflict, result: reconcile.Result{RequeueAfter: 50 * time.Millisecond}},
		{name: "other", err: errors.New("no route"), status: metav1.ConditionUnknown, reason: step.ErrorReason, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScope()
			ranLast := false
			err := step.Run(t.Context(), s, step.Of("Mine", "Fine", end(tt.err)), step.Of("Next", "Ok", func(context.Context, *scope) error {
				ranLast = true
				return nil
			}))
			require.Equal(t, tt.err == nil, ranLast)
			result, err := step.Result(err)
			require.Equal(t, tt.wantErr, err != nil)
			require.Equal(t, tt.result, result)
			mine := s.set.Get("Mine")
			if tt.status == "" {
				require.Nil(t, mine)
				return
			}
			require.Equal(t, tt.status, mine.Status)
			require.Equal(t, tt.reason, mine.Reason)
			require.EqualValues(t, 7, mine.ObservedGeneration)
		})
	}
}

func TestRun_keepsWhatTheStepSetItself(t *testing.T) {
	s := newScope()
	require.NoError(t, step.Run(t.Context(), s, step.Of("Mine", "Default", func(_ context.Context, s *scope) error {
		s.set.True("Mine", "Special", "for a reason")
		return nil
	})))
	require.Equal(t, "Special", s.set.Get("Mine").Reason)
}

func TestSummarize(t *testing.T) {
	s := newScope()
	s.set.True("A", "Ok", "")
	s.set.Summarize("Ready", "AllGood", "A", "B", "C")
	require.Equal(t, metav1.ConditionTrue, s.set.Get("Ready").Status)

	s.set.False("C", "Later", "later")
	s.set.Set("B", metav1.ConditionUnknown, "Running", "it runs")
	s.set.Summarize("Ready", "AllGood", "A", "B", "C")
	ready := s.set.Get("Ready")
	require.Equal(t, metav1.ConditionFalse, ready.Status)
	require.Equal(t, "Running", ready.Reason)
	require.Equal(t, "it runs", ready.Message)

	s.set.Drop("B", "C")
	s.set.Summarize("Ready", "AllGood", "A", "B", "C")
	require.Equal(t, "AllGood", s.set.Get("Ready").Reason)
}

func TestConditions_messagesAreBounded(t *testing.T) {
	s := newScope()
	s.set.False("A", "Long", strings.Repeat("ä", 10_000))
	message := s.set.Get("A").Message
	require.LessOrEqual(t, len(message), 4<<10)
	require.True(t, utf8.ValidString(message))
}

func TestEmit_onlyOnTransitions(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	before := []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Ok"},
		{Type: "B", Status: metav1.ConditionFalse, Reason: "Waiting"},
	}
	after := []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Ok", Message: "same reason, other words"},
		{Type: "B", Status: metav1.ConditionFalse, Reason: "Broken", Message: "50 % of it"},
		{Type: "C", Status: metav1.ConditionUnknown, Reason: "Running"},
		{Type: "D", Status: metav1.ConditionFalse, Reason: "Waiting"},
		{Type: "E", Status: metav1.ConditionFalse, Reason: "Broken"},
	}
	step.Emit(recorder, &corev1.ConfigMap{}, step.Transitions{Before: before, After: after,
		Of: []string{"A", "B", "C", "D"}, Quiet: []string{"Waiting"}})
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, event)
	}
	require.Equal(t, []string{"Warning Broken 50 % of it"}, got)
}
