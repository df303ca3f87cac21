package faults

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	managementv3 "github.com/drover-project/drover/api/management/v3"
)

// staleFor is for how many reconciles a cache lags behind: the one that wrote, and two more.
const staleFor = 3

// cached are the kinds of which the manager's cache holds objects of a namespace.
func cached() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		batchv1.SchemeGroupVersion.WithKind("Job"), corev1.SchemeGroupVersion.WithKind("Secret"),
		clusterv1.GroupVersion.WithKind("Machine"), clusterv1.GroupVersion.WithKind("Cluster"),
	}
}

// lagging is the manager's cache: it is up to date, or answers from what was before the manager's own last write.
type lagging struct {
	client.Reader
	scheme *runtime.Scheme
	old    map[string]*unstructured.Unstructured
	left   int
	// habit is what the NodeDriver says of user data in this world: runs share the NodeDriver.
	habit string
}

// List implements client.Reader.
func (l *lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := l.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if drivers, ok := list.(*managementv3.NodeDriverList); ok && l.habit != "" {
		for i := range drivers.Items {
			drivers.Items[i].Annotations = map[string]string{managementv3.UserDataAnnotation: l.habit}
		}
	}
	return nil
}

// Get implements client.Reader.
func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(obj, l.scheme)
	if err != nil {
		return err
	}
	if l.left <= 0 {
		return l.Reader.Get(ctx, key, obj, options...)
	}
	old, found := l.old[oldKey(kind.Kind, key)]
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(old.DeepCopy().Object, obj)
}

func oldKey(kind string, key client.ObjectKey) string { return fmt.Sprint(kind, " ", key) }

// reconciled counts the time until the cache has caught up.
func (l *lagging) reconciled() { l.left-- }

// lag lets the manager's cache stay as it is for some time.
func (w *world) lag() {
	w.Helper()
	w.cache.old, w.cache.left = map[string]*unstructured.Unstructured{}, staleFor
	for _, kind := range cached() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		require.NoError(w, w.admin.List(w.Context(), list, client.InNamespace(w.namespace)))
		for i := range list.Items {
			w.cache.old[oldKey(kind.Kind, client.ObjectKeyFromObject(&list.Items[i]))] = &list.Items[i]
		}
	}
}

// touch changes what the manager has read before it writes: a label nobody minds, but another resourceVersion.
func (w *world) touch() {
	w.Helper()
	w.touches++
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"faults.test/touched":"%d"}}}`, w.touches))
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), w.obj.DeepCopy(), patch)))
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &batchv1.JobList{}} {
		require.NoError(w, w.admin.List(w.Context(), list, client.InNamespace(w.namespace)))
		items, err := metaItems(list)
		require.NoError(w, err)
		for _, item := range items {
			require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), item, patch)))
		}
	}
}

// isWrite tells whether a recorded request changes something, and isChange whether it changes what is there.
func isWrite(request string) bool {
	return isChange(request) || hasMethod(request, http.MethodPost, http.MethodDelete)
}

func isChange(request string) bool { return hasMethod(request, http.MethodPut, http.MethodPatch) }

func hasMethod(request string, methods ...string) bool {
	for _, method := range methods {
		if len(request) > len(method) && request[:len(method)+1] == method+" " {
			return true
		}
	}
	return false
}
