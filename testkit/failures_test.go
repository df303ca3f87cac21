package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/testkit"
)

// stop is what a recorder panics with: FailNow never returns.
type stop struct{}

// recorder is a test that may fail without failing the one around it.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func (r *recorder) FailNow() { panic(stop{}) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.FailNow()
}

// failure runs check and returns what it said when it failed, "" when it passed.
func failure(t *testing.T, check func(r *recorder)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stop{}) {
				panic(v)
			}
		}()
		check(r)
	}()
	return r.said
}

func TestExpectations_fail_when_they_should(t *testing.T) {
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "there", Namespace: "ns"}}
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gone", Namespace: "ns"}}
	c := fake.NewClientBuilder().WithObjects(there).Build()
	pod := &corev1.Node{}
	broken := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, errors.New("boom")
	})
	healthy := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	for want, check := range map[string]func(r *recorder){
		"reading *v1.ConfigMap ns/gone":                func(r *recorder) { testkit.ExpectExists(r, c, gone) },
		"*v1.ConfigMap ns/there should be gone: <nil>": func(r *recorder) { testkit.ExpectNotFound(r, c, gone, there) },
		"*v1.Node has no condition Ready":              func(r *recorder) { testkit.ExpectCondition(r, pod, "Ready", metav1.ConditionTrue, "") },
		"reconciling ns/there":                         func(r *recorder) { testkit.ExpectReconciled(r, broken, there) },
		"An error is expected":                         func(r *recorder) { _ = testkit.ExpectReconcileError(r, healthy, there) },
	} {
		require.Contains(t, failure(t, check), want)
	}
}

func TestExpectCondition(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Waiting", Message: "for a reason"},
	}}}
	found := testkit.ExpectCondition(t, node, "Ready", metav1.ConditionFalse, "")
	require.Equal(t, "for a reason", found.Message)
	testkit.ExpectCondition(t, node, "Ready", metav1.ConditionFalse, "Waiting")
	testkit.ExpectNoCondition(t, node, "Other")

	require.Contains(t, failure(t, func(r *recorder) { testkit.ExpectNoCondition(r, node, "Ready") }), "*v1.Node has condition Ready")
	for _, check := range []func(r *recorder){
		func(r *recorder) { testkit.ExpectCondition(r, node, "Ready", metav1.ConditionTrue, "") },
		func(r *recorder) { testkit.ExpectCondition(r, node, "Ready", metav1.ConditionFalse, "Other") },
	} {
		require.Contains(t, failure(t, check), "for a reason", "who reads the failure wants to know why")
	}
}

func TestEventually_gives_the_last_error(t *testing.T) {
	calls := 0
	said := failure(t, func(r *recorder) {
		testkit.Eventually(r, time.Millisecond, func() error {
			calls++
			return fmt.Errorf("try %d", calls)
		})
	})
	require.Equal(t, "not within 1ms: try 1", said)
}
