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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/controllers/step"
)

type scope struct {
	list []metav1.Condition
	set  *step.Conditions
}

func newScope(list ...metav1.Condition) *scope {
	s := &scope{list: list}
	s.set = step.NewConditions(&s.list, 7, time.Unix(1000, 0))
	return s
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
		{name: "waiting in a chain", err: fmt.Errorf("a: %w", fmt.Errorf("b: %w", step.Wait("NoFile", "m", time.Second))),
			status: metav1.ConditionFalse, reason: "NoFile", result: reconcile.Result{RequeueAfter: time.Second}},
		{name: "conflict", err: conflict, result: reconcile.Result{RequeueAfter: 50 * time.Millisecond}},
		{name: "conflict in both", err: errors.Join(conflict, nil), result: reconcile.Result{RequeueAfter: 50 * time.Millisecond}},
		{name: "conflict, wrapped", err: fmt.Errorf("writing the status: %w", conflict), result: reconcile.Result{RequeueAfter: 50 * time.Millisecond}},
		{name: "cancelled: nothing was found out", err: fmt.Errorf("reading: %w", context.Canceled), wantErr: true},
		{name: "other", err: errors.New("no route"), status: metav1.ConditionUnknown, reason: step.ErrorReason, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScope()
			ranLast := false
			mine := step.Of("Mine", "Fine", func(context.Context, *scope) error { return tt.err })
			err := step.Run(t.Context(), s, s.set, mine, step.Of("Next", "Ok", func(context.Context, *scope) error {
				ranLast = true
				return nil
			}))
			require.Equal(t, tt.err == nil, ranLast)
			result, err := step.Result(err)
			require.Equal(t, tt.wantErr, err != nil)
			require.Equal(t, tt.result, result)
			told := s.set.Get("Mine")
			if tt.status == "" {
				require.Nil(t, told)
				return
			}
			require.Equal(t, tt.status, told.Status)
			require.Equal(t, tt.reason, told.Reason)
			require.EqualValues(t, 7, told.ObservedGeneration)
		})
	}
}

func TestRun_keepsWhatTheStepSetItself(t *testing.T) {
	s := newScope()
	require.NoError(t, step.Run(t.Context(), s, s.set, step.Of("Mine", "Default", func(_ context.Context, s *scope) error {
		s.set.True("Mine", "Special", "for a reason")
		return nil
	})))
	require.Equal(t, "Special", s.set.Get("Mine").Reason)
}

// Of several steps with one condition the last says that it is True: before that it stays as it was, since when it was, also after a conflict.
func TestRun_leavesItToALaterStep(t *testing.T) {
	was := metav1.Condition{Type: "Mine", Status: metav1.ConditionFalse, Reason: "Waiting", LastTransitionTime: metav1.NewTime(time.Unix(500, 0))}
	s := newScope(was)
	require.NoError(t, step.Run(t.Context(), s, s.set, step.Of("Mine", "", func(context.Context, *scope) error { return nil })))
	require.Equal(t, was, *s.set.Get("Mine"))
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
	s.set.Hold("NotThere", "Old")
	s.set.Observe(9)
	require.EqualValues(t, 9, s.set.Get("Old").ObservedGeneration)
	require.Equal(t, metav1.ConditionTrue, s.set.Get("Old").Status)
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
		"with a note":     {metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Reason: "Noted"}, "Normal Noted It is noted"},
		"its words first": {metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Noted", Message: "in 3 s"}, "Warning Noted in 3 s"},
		"of another kind": {now: metav1.Condition{Type: "B", Status: metav1.ConditionTrue, Reason: "Done"}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(2)
			step.Emit(recorder, &corev1.ConfigMap{}, step.Transitions{After: []metav1.Condition{tt.now}, Of: []string{"A"}, Notes: map[string]string{"Noted": "It is noted"}})
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

func TestConditions_areAlwaysWhatTheAPITakes(t *testing.T) {
	s := newScope()
	s.set.False("A", "", "without a reason")
	require.Equal(t, step.ErrorReason, s.set.Get("A").Reason)
	s.set.False("A", "Bytes", "half a \xe2\x82 character")
	require.Equal(t, "half a  character", s.set.Get("A").Message)
}

func TestConditions_keepWhatFits(t *testing.T) {
	for _, message := range []string{"", strings.Repeat("ä", 3000), "\xff\xfe"} {
		s := newScope()
		s.set.False("A", "Fuzz", message)
		got := s.set.Get("A").Message
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 4<<10)
		if utf8.ValidString(message) && len(message) <= 4<<10 {
			require.Equal(t, message, got)
		}
		s.set.False("A", "Fuzz", got)
		require.Equal(t, got, s.set.Get("A").Message, "what was written once is not written again")
	}
}

func TestWrites_sayWhatTheyWereFor(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: []string{"x/mine"}}}
	refuses := fake.NewClientBuilder().WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("forbidden")
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("forbidden")
		}}).Build()
	wrote, err := step.EnsureFinalizer(t.Context(), refuses, pod, "x/other")
	require.EqualError(t, err, "changing the finalizers: forbidden")
	require.False(t, wrote)
	_, err = step.DropFinalizer(t.Context(), refuses, pod, "x/mine")
	require.EqualError(t, err, "changing the finalizers: forbidden")
	changed := pod.DeepCopy()
	changed.Status.Reason = "other"
	_, err = step.PatchStatus(t.Context(), refuses, pod, changed)
	require.EqualError(t, err, "writing the status: forbidden")

	gone := fake.NewClientBuilder().Build()
	_, err = step.DropFinalizer(t.Context(), gone, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: []string{"x/mine"}}}, "x/mine")
	require.NoError(t, err, "it went before")
}

func TestPatchStatus(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	c := fake.NewClientBuilder().WithObjects(pod).WithStatusSubresource(pod).Build()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), obj))
	stale := obj.DeepCopy()

	wrote, err := step.PatchStatus(t.Context(), c, obj.DeepCopy(), obj)
	require.NoError(t, err)
	require.False(t, wrote, "nothing changed")

	before := obj.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(obj.Object, "it is", "status", "reason"))
	wrote, err = step.PatchStatus(t.Context(), c, before, obj)
	require.NoError(t, err)
	require.True(t, wrote)

	late := stale.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(late.Object, "it was", "status", "reason"))
	_, err = step.PatchStatus(t.Context(), c, stale, late)
	require.True(t, apierrors.IsConflict(err), "%v", err)
}

func TestFinalizer(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: []string{"x/other"}}}
	c := fake.NewClientBuilder().WithObjects(pod).Build()
	wrote, err := step.EnsureFinalizer(t.Context(), c, pod, "x/mine")
	require.NoError(t, err)
	require.True(t, wrote)
	wrote, err = step.EnsureFinalizer(t.Context(), c, pod, "x/mine")
	require.NoError(t, err)
	require.False(t, wrote)
	require.Equal(t, []string{"x/other", "x/mine"}, pod.Finalizers)

	_, err = step.DropFinalizer(t.Context(), c, pod, "x/other")
	require.NoError(t, err)
	require.NoError(t, c.Delete(t.Context(), pod))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	wrote, err = step.DropFinalizer(t.Context(), c, pod, "x/mine")
	require.NoError(t, err)
	require.True(t, wrote)
	require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
}
