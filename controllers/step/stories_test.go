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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/controllers/step"
)

// A reconcile that is repeated with one more thing there each time: each step tells what it waits for, and what it found out
// before stays as it was.
func TestRun_aWholeStory(t *testing.T) {
	there := map[string]bool{}
	need := func(what string) func(context.Context, *scope) error {
		return func(context.Context, *scope) error {
			if there[what] {
				return nil
			}
			return step.Wait("No"+what, "there is no "+what, 0)
		}
	}
	steps := []step.Step[*scope]{step.Of("A", "FoundA", need("Apple")), step.Of("B", "FoundB", need("Bread")), step.Of("C", "FoundC", need("Cheese"))}
	s := newScope()
	say := func() string {
		s.set = step.NewConditions(&s.list, 7, time.Unix(1000, 0))
		err := step.Run(t.Context(), s, steps...)
		s.set.Summarize("Ready", "Fed", "A", "B", "C")
		var words []string
		for _, c := range s.list {
			words = append(words, fmt.Sprintf("%s=%s(%s)", c.Type, c.Status, c.Reason))
		}
		return fmt.Sprintf("%v: %s", err, strings.Join(words, " "))
	}
	for _, line := range []struct{ comes, want string }{
		{"", "NoApple: there is no Apple: A=False(NoApple) Ready=False(NoApple)"},
		{"Apple", "NoBread: there is no Bread: A=True(FoundA) Ready=False(NoBread) B=False(NoBread)"},
		{"Cheese", "NoBread: there is no Bread: A=True(FoundA) Ready=False(NoBread) B=False(NoBread)"},
		{"Bread", "<nil>: A=True(FoundA) Ready=True(Fed) B=True(FoundB) C=True(FoundC)"},
	} {
		there[line.comes] = true
		require.Equal(t, line.want, say())
	}
	delete(there, "Apple")
	require.Equal(t, "NoApple: there is no Apple: A=False(NoApple) Ready=False(NoApple) B=True(FoundB) C=True(FoundC)", say())
}

func TestConditions_areAlwaysWhatTheAPITakes(t *testing.T) {
	s := newScope()
	s.set.False("A", "", "without a reason")
	require.Equal(t, step.ErrorReason, s.set.Get("A").Reason)
	s.set.False("A", "Bytes", "half a \xe2\x82 character")
	require.Equal(t, "half a  character", s.set.Get("A").Message)
}

func TestConditions_keepWhatFits(t *testing.T) {
	check := func(message string) {
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
	check("")
	check(strings.Repeat("ä", 3000))
	check("\xff\xfe")
}

func TestEmit_notes(t *testing.T) {
	notes := map[string]string{"Done": "It is done", "Broken": "It broke"}
	for name, tt := range map[string]struct {
		now  metav1.Condition
		want string
	}{
		"a note for what says nothing":    {metav1.Condition{Status: metav1.ConditionTrue, Reason: "Done"}, "Normal Done It is done"},
		"its own words come first":        {metav1.Condition{Status: metav1.ConditionTrue, Reason: "Done", Message: "done in 3 s"}, "Normal Done done in 3 s"},
		"a note for bad news":             {metav1.Condition{Status: metav1.ConditionFalse, Reason: "Broken"}, "Warning Broken It broke"},
		"without a note it is a sentence": {metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine"}, "Normal Fine The condition A is now True"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.now.Type = "A"
			recorder := events.NewFakeRecorder(1)
			step.Emit(recorder, &corev1.ConfigMap{}, step.Transitions{After: []metav1.Condition{tt.now}, Of: []string{"A"}, Notes: notes})
			require.Equal(t, tt.want, <-recorder.Events)
		})
	}
}

func TestResult_ofJoinedErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("changed"))
	for name, tt := range map[string]struct {
		err     error
		after   time.Duration
		wantErr bool
	}{
		"waiting in a chain":  {fmt.Errorf("a: %w", fmt.Errorf("b: %w", step.Wait("R", "m", time.Second))), time.Second, false},
		"a conflict in both":  {errors.Join(conflict, nil), 50 * time.Millisecond, false},
		"a conflict, wrapped": {fmt.Errorf("writing the status: %w", conflict), 50 * time.Millisecond, false},
		"an error and none":   {errors.Join(errors.New("no route"), nil), 0, true},
		"stalled":             {step.Stall("R", errors.New("bad")), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := step.Result(tt.err)
			require.Equal(t, tt.wantErr, err != nil)
			require.Equal(t, reconcile.Result{RequeueAfter: tt.after}, result)
		})
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
