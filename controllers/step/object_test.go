package step_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-project/drover/controllers/step"
)

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
