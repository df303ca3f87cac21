package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ExpectReconciled calls Reconcile for obj and expects no error.
func ExpectReconciled(tb testing.TB, r reconcile.Reconciler, obj client.Object) reconcile.Result {
	tb.Helper()
	result, err := reconcileOnce(tb, r, obj)
	require.NoError(tb, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return result
}

// ExpectReconcileError calls Reconcile for obj and expects an error, which it returns.
func ExpectReconcileError(tb testing.TB, r reconcile.Reconciler, obj client.Object) error {
	tb.Helper()
	_, err := reconcileOnce(tb, r, obj)
	require.Error(tb, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return err
}

func reconcileOnce(tb testing.TB, r reconcile.Reconciler, obj client.Object) (reconcile.Result, error) {
	tb.Helper()
	return r.Reconcile(tb.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
}

// ExpectApplied makes the objects, or updates those that exist, with their
// status; afterwards they are what the server has.
func ExpectApplied(tb testing.TB, c client.Client, objs ...client.Object) {
	tb.Helper()
	for _, obj := range objs {
		require.NoError(tb, applyObject(tb, c, obj), "applying %T %s", obj, client.ObjectKeyFromObject(obj))
	}
}

func applyObject(tb testing.TB, c client.Client, obj client.Object) error {
	tb.Helper()
	desired, live := duplicate(obj), duplicate(obj)
	err := c.Get(tb.Context(), client.ObjectKeyFromObject(obj), live)
	switch {
	case apierrors.IsNotFound(err):
		obj.SetResourceVersion("")
		err = c.Create(tb.Context(), obj)
	case err == nil:
		obj.SetResourceVersion(live.GetResourceVersion())
		err = c.Update(tb.Context(), obj)
	}
	if err != nil {
		return err
	}
	desired.SetResourceVersion(obj.GetResourceVersion())
	if err := c.Status().Update(tb.Context(), desired); err != nil {
		return client.IgnoreNotFound(err) // the kind has no status
	}
	return c.Get(tb.Context(), client.ObjectKeyFromObject(obj), obj)
}

func duplicate(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// ExpectExists reads obj anew from the server and returns it.
func ExpectExists[T client.Object](tb testing.TB, c client.Reader, obj T) T {
	tb.Helper()
	require.NoError(tb, c.Get(tb.Context(), client.ObjectKeyFromObject(obj), obj), "reading %T %s", obj, client.ObjectKeyFromObject(obj))
	return obj
}

// ExpectNotFound expects that the server has none of the objects.
func ExpectNotFound(tb testing.TB, c client.Reader, objs ...client.Object) {
	tb.Helper()
	for _, obj := range objs {
		err := c.Get(tb.Context(), client.ObjectKeyFromObject(obj), obj)
		require.True(tb, apierrors.IsNotFound(err), "%T %s should be gone: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// ExpectCondition expects a condition of obj, as it is in memory, and returns
// it. An empty reason stands for any.
func ExpectCondition(tb testing.TB, obj runtime.Object, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	tb.Helper()
	found := condition(tb, obj, kind)
	require.NotNil(tb, found, "%T has no condition %s", obj, kind)
	require.Equal(tb, status, found.Status, "condition %s: %s: %s", kind, found.Reason, found.Message)
	if reason != "" {
		require.Equal(tb, reason, found.Reason, "condition %s: %s", kind, found.Message)
	}
	return *found
}

// ExpectNoCondition expects that obj lacks a condition.
func ExpectNoCondition(tb testing.TB, obj runtime.Object, kind string) {
	tb.Helper()
	require.Nil(tb, condition(tb, obj, kind), "%T has condition %s", obj, kind)
}

// condition reads status.conditions of any kind, typed or not.
func condition(tb testing.TB, obj runtime.Object, kind string) *metav1.Condition {
	tb.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(tb, err, "converting %T", obj)
	list, _, err := unstructured.NestedSlice(content, "status", "conditions")
	require.NoError(tb, err, "reading conditions of %T", obj)
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		found := &metav1.Condition{}
		require.NoError(tb, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, found), "reading condition %s", kind)
		return found
	}
	return nil
}
