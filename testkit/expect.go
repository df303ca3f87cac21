package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ExpectReconciled calls Reconcile for obj and expects no error.
func ExpectReconciled(tb testing.TB, r reconcile.Reconciler, obj client.Object) reconcile.Result {
	tb.Helper()
	result, err := r.Reconcile(tb.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	require.NoError(tb, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return result
}

// ExpectReconcileError calls Reconcile for obj and expects an error, which it returns.
func ExpectReconcileError(tb testing.TB, r reconcile.Reconciler, obj client.Object) error {
	tb.Helper()
	_, err := r.Reconcile(tb.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	require.Error(tb, err, "reconciling %s", client.ObjectKeyFromObject(obj))
	return err
}

// ExpectApplied creates the objects, or updates existing ones, with their status; afterwards they
// hold the server's version.
func ExpectApplied(tb testing.TB, c client.Client, objs ...client.Object) {
	tb.Helper()
	for _, obj := range objs {
		require.NoError(tb, applyObject(tb, c, obj), "applying %T %s", obj, client.ObjectKeyFromObject(obj))
	}
}

func applyObject(tb testing.TB, c client.Client, obj client.Object) error {
	tb.Helper()
	desired, live := obj.DeepCopyObject().(client.Object), obj.DeepCopyObject().(client.Object)
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
	// A running manager may write between these requests, a finalizer for instance.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Get(tb.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		desired.SetResourceVersion(obj.GetResourceVersion())
		return c.Status().Update(tb.Context(), desired)
	})
	if err != nil {
		return client.IgnoreNotFound(err) // the kind has no status
	}
	return c.Get(tb.Context(), client.ObjectKeyFromObject(obj), obj)
}

// ExpectExists reads obj again from the server and returns it.
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
	found := conditions(tb, obj)[kind]
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
	require.Nil(tb, conditions(tb, obj)[kind], "%T has condition %s", obj, kind)
}

// ExpectObserved expects that all conditions of obj are about its present generation, or about
// none: kubectl wait waits for that.
func ExpectObserved(tb testing.TB, obj client.Object) {
	tb.Helper()
	all := conditions(tb, obj)
	require.NotEmpty(tb, all, "%T has no condition", obj)
	for kind, found := range all {
		require.Contains(tb, []int64{0, obj.GetGeneration()}, found.ObservedGeneration, "condition %s", kind)
	}
}

// conditions reads status.conditions of any kind, typed or not.
func conditions(tb testing.TB, obj runtime.Object) map[string]*metav1.Condition {
	tb.Helper()
	all := map[string]*metav1.Condition{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	require.NoError(tb, err, "converting %T", obj)
	list, _, err := unstructured.NestedSlice(content, "status", "conditions")
	require.NoError(tb, err, "reading conditions of %T", obj)
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			continue
		}
		found := &metav1.Condition{}
		require.NoError(tb, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, found), "reading condition %v", fields["type"])
		all[found.Type] = found
	}
	return all
}

// pollEvery is short in comparison with the waits of e2e stories.
const pollEvery = 100 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with its
// last error when that takes too long. For e2e only: other tests call
// Reconcile and have nothing to wait for.
func Eventually(tb testing.TB, timeout time.Duration, check func() error) {
	tb.Helper()
	var last error
	_ = wait.PollUntilContextTimeout(tb.Context(), pollEvery, timeout, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	switch {
	case last == nil:
	case tb.Context().Err() != nil:
		tb.Fatalf("test ended while waiting: %v", last)
	default:
		tb.Fatalf("not within %s: %v", timeout, last)
	}
}

// Table returns the columns that kubectl get shows for the path of an object or a list. It retries
// while the API server's storage of a new kind is not ready (429).
func Table(tb testing.TB, path string) metav1.Table {
	tb.Helper()
	clients, err := kubernetes.NewForConfig(Config(tb))
	require.NoError(tb, err)
	answer, err := clients.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(tb.Context())
	require.NoError(tb, err)
	var table metav1.Table
	require.NoError(tb, json.Unmarshal(answer, &table))
	return table
}

// Config is an administrator's access to the server; the caller may change it.
func Config(tb testing.TB) *rest.Config {
	tb.Helper()
	return rest.CopyConfig(started(tb).config)
}

// Fresh returns an administrator's access to a new server. It takes some seconds.
func Fresh(tb testing.TB, opts ...Option) *rest.Config {
	tb.Helper()
	s := &server{}
	for _, opt := range opts {
		opt(&s.options)
	}
	require.NoError(tb, s.ensure(), "starting a server")
	tb.Cleanup(func() { require.NoError(tb, s.stop()) })
	return rest.CopyConfig(s.config)
}

// Kubeconfig is the path of an administrator's kubeconfig.
func Kubeconfig(tb testing.TB) string {
	tb.Helper()
	return started(tb).kubeconfig
}

// Client is an administrator's uncached client.
func Client(tb testing.TB, scheme *runtime.Scheme) client.WithWatch {
	tb.Helper()
	c, err := client.NewWithWatch(Config(tb), client.Options{Scheme: scheme})
	require.NoError(tb, err, "making a client")
	return c
}

// Namespace makes a namespace for one test. Its deletion is asked for at the
// end and not awaited: names are never used again.
func Namespace(tb testing.TB) string {
	tb.Helper()
	clients, err := kubernetes.NewForConfig(Config(tb))
	require.NoError(tb, err, "making a client")
	namespaces := clients.CoreV1().Namespaces()
	ns, err := namespaces.Create(tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	require.NoError(tb, err, "making a namespace")
	tb.Cleanup(func() {
		if err := namespaces.Delete(context.WithoutCancel(tb.Context()), ns.Name, metav1.DeleteOptions{}); err != nil {
			tb.Logf("deleting namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// Refusal returns the API server's causes for the rejection of an object, in a stable order.
func Refusal(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return err.Error()
	}
	var causes []string
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field != "<nil>" {
			causes = append(causes, cause.Field+": "+cause.Message)
		}
	}
	slices.Sort(causes)
	return strings.Join(causes, "; ")
}
