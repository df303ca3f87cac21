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
func failure(t *testing.T, check func(tb testing.TB)) string {
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
	for want, check := range map[string]func(tb testing.TB){
		"reading *v1.ConfigMap ns/gone":                func(tb testing.TB) { testkit.ExpectExists(tb, c, gone) },
		"*v1.ConfigMap ns/there should be gone: <nil>": func(tb testing.TB) { testkit.ExpectNotFound(tb, c, gone, there) },
		"*v1.Node has no condition Ready":              func(tb testing.TB) { testkit.ExpectCondition(tb, pod, "Ready", metav1.ConditionTrue, "") },
		"reconciling ns/there":                         func(tb testing.TB) { testkit.ExpectReconciled(tb, broken, there) },
		"An error is expected":                         func(tb testing.TB) { _ = testkit.ExpectReconcileError(tb, healthy, there) },
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

	require.Contains(t, failure(t, func(tb testing.TB) { testkit.ExpectNoCondition(tb, node, "Ready") }), "*v1.Node has condition Ready")
	for _, check := range []func(tb testing.TB){
		func(tb testing.TB) { testkit.ExpectCondition(tb, node, "Ready", metav1.ConditionTrue, "") },
		func(tb testing.TB) { testkit.ExpectCondition(tb, node, "Ready", metav1.ConditionFalse, "Other") },
	} {
		require.Contains(t, failure(t, check), "for a reason", "who reads the failure wants to know why")
	}
}

func TestEventually_gives_the_last_error(t *testing.T) {
	calls := 0
	said := failure(t, func(tb testing.TB) {
		testkit.Eventually(tb, time.Millisecond, func() error {
			calls++
			return fmt.Errorf("try %d", calls)
		})
	})
	require.Equal(t, "not within 1ms: try 1", said)
}
