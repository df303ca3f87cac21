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
func ExpectReconciled(t testing.TB, r reconcile.Reconciler, obj client.Object) reconcile.Result {
	t.Helper()
	result, err := reconcileOnce(t, r, obj)
	require.NoError(t, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return result
}

// ExpectReconcileError calls Reconcile for obj and expects an error, which it returns.
func ExpectReconcileError(t testing.TB, r reconcile.Reconciler, obj client.Object) error {
	t.Helper()
	_, err := reconcileOnce(t, r, obj)
	require.Error(t, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return err
}

func reconcileOnce(t testing.TB, r reconcile.Reconciler, obj client.Object) (reconcile.Result, error) {
	t.Helper()
	return r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
}

// ExpectApplied makes the objects, or updates those that exist, with their
// status; afterwards they are what the server has.
func ExpectApplied(t testing.TB, c client.Client, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		require.NoError(t, applyObject(t, c, obj), "applying %T %s", obj, client.ObjectKeyFromObject(obj))
	}
}

func applyObject(t testing.TB, c client.Client, obj client.Object) error {
	t.Helper()
	desired, live := duplicate(obj), duplicate(obj)
	err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), live)
	switch {
	case apierrors.IsNotFound(err):
		obj.SetResourceVersion("")
		err = c.Create(t.Context(), obj)
	case err == nil:
		obj.SetResourceVersion(live.GetResourceVersion())
		err = c.Update(t.Context(), obj)
	}
	if err != nil {
		return err
	}
	desired.SetResourceVersion(obj.GetResourceVersion())
	if err := c.Status().Update(t.Context(), desired); err != nil {
		return client.IgnoreNotFound(err) // the kind has no status
	}
	return c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
}

func duplicate(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// ExpectExists reads obj anew from the server and returns it.
func ExpectExists[T client.Object](t testing.TB, c client.Reader, obj T) T {
	t.Helper()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj), "reading %T %s", obj, client.ObjectKeyFromObject(obj))
	return obj
}

// ExpectNotFound expects that the server has none of the objects.
func ExpectNotFound(t testing.TB, c client.Reader, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		require.True(t, apierrors.IsNotFound(err), "%T %s should be gone: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// ExpectCondition expects a condition of obj, as it is in memory, and returns
// it. An empty reason stands for any.
func ExpectCondition(t testing.TB, obj runtime.Object, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	found := condition(t, obj, kind)
	require.NotNil(t, found, "%T has no condition %s", obj, kind)
	require.Equal(t, status, found.Status, "condition %s: %s: %s", kind, found.Reason, found.Message)
	if reason != "" {
		require.Equal(t, reason, found.Reason, "condition %s: %s", kind, found.Message)
	}
	return *found
}

// ExpectNoCondition expects that obj lacks a condition.
func ExpectNoCondition(t testing.TB, obj runtime.Object, kind string) {
	t.Helper()
	require.Nil(t, condition(t, obj, kind), "%T has condition %s", obj, kind)
}

// condition reads status.conditions of any kind, typed or not.
func condition(t testing.TB, obj runtime.Object, kind string) *metav1.Condition {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(t, err, "converting %T", obj)
	list, _, err := unstructured.NestedSlice(content, "status", "conditions")
	require.NoError(t, err, "reading conditions of %T", obj)
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok || fields["type"] != kind {
			continue
		}
		found := &metav1.Condition{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, found), "reading condition %s", kind)
		return found
	}
	return nil
}
