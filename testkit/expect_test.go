package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

func TestExpectApplied_makes_and_updates(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	ns := testkit.Namespace(t)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: ns, ResourceVersion: "7"}, Data: map[string]string{"a": "1"}}
	testkit.ExpectApplied(t, c, config)
	first := config.ResourceVersion
	require.NotEqual(t, "7", first, "the server says what it is")
	require.NotEmpty(t, config.UID)

	stale := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: ns, ResourceVersion: first}, Data: map[string]string{"a": "2"}}
	config.Data["a"] = "between"
	require.NoError(t, c.Update(t.Context(), config))
	testkit.ExpectApplied(t, c, stale)
	require.Equal(t, "2", testkit.ExpectExists(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: ns}}).Data["a"])

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: ns},
		Spec:       corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodSucceeded, Message: "done"},
	}
	testkit.ExpectApplied(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}})
	testkit.ExpectApplied(t, c, pod)
	require.Equal(t, corev1.PodSucceeded, pod.Status.Phase, "with its status")
	pod.Status.Message = "again"
	testkit.ExpectApplied(t, c, pod)
	require.Equal(t, "again", testkit.ExpectExists(t, c, pod).Status.Message)
}

func TestExpectApplied_names_what_the_server_refuses(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	ns := testkit.Namespace(t)
	for want, obj := range map[string]client.Object{
		"applying *v1.ConfigMap " + ns + "/No Name":                  &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "No Name", Namespace: ns}},
		"applying *v1.ConfigMap nowhere/c":                           &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "nowhere"}},
		"applying *unstructured.Unstructured " + ns + "/w":           widget("early", ns, 99),
		"no matches for kind \"Widgetunknown\" in version \"testkit": widget("unknown", ns, 1),
	} {
		require.Contains(t, failure(t, func(r *recorder) { testkit.ExpectApplied(r, c, obj) }), want)
	}
}

func TestNamespace_is_everybodys_own(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	seen := map[string]bool{}
	for range 5 {
		seen[testkit.Namespace(t)] = true
	}
	require.Len(t, seen, 5)
	var gone string
	t.Run("inner", func(t *testing.T) { gone = testkit.Namespace(t) })
	ns := testkit.ExpectExists(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone}})
	require.False(t, ns.DeletionTimestamp.IsZero(), "its deletion was asked for")
}

func TestApplyCRDs_serves_what_was_applied_last(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	ns := testkit.Namespace(t)
	crd := widgets("changing")
	testkit.ApplyCRDs(t, crd)
	try := func() error { return c.Create(t.Context(), widget("changing", ns, 50), client.DryRunAll) }
	testkit.Eventually(t, 10*time.Second, func() error { // the server takes a moment to forget an older definition
		if err := try(); !apierrors.IsInvalid(err) {
			return fmt.Errorf("too large a widget: %w", err)
		}
		return nil
	})
	changed := widgets("changing")
	size := changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["size"]
	size.XValidations[0].Rule = "self < 100"
	testkit.ApplyCRDs(t, changed)
	require.Empty(t, changed.ResourceVersion, "the caller's definition stays as it was")
	testkit.Eventually(t, 10*time.Second, try)
}

func TestApplyCRDs_names_what_is_refused(t *testing.T) {
	nameless := widgets("nameless")
	nameless.Name = "other"
	unstructuredSchema := widgets("loose")
	unstructuredSchema.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{}
	for want, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{
		`unable to create CRD "other": `:                        nameless,
		`unable to create CRD "loose.testkit.drover.example": `: unstructuredSchema,
	} {
		require.Contains(t, failure(t, func(r *recorder) { testkit.ApplyCRDs(r, crd) }), want)
	}
}

func TestEventually_ends_with_the_test(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	said := failure(t, func(r *recorder) {
		r.TB = ended{r.TB, ctx}
		testkit.Eventually(r, time.Minute, func() error { return errors.New("not yet") })
	})
	require.Equal(t, "test ended while waiting: not yet", said)
}

// ended is a test whose context has ended.
type ended struct {
	testing.TB
	ctx context.Context
}

// Context implements testing.TB.
func (e ended) Context() context.Context { return e.ctx }

func TestExpectCondition_of_odd_objects(t *testing.T) {
	conditions := func(list any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Odd", "status": map[string]any{"conditions": list}}}
	}
	for name, tc := range map[string]struct {
		obj  *unstructured.Unstructured
		want string
	}{
		"none":           {&unstructured.Unstructured{Object: map[string]any{}}, "*unstructured.Unstructured has no condition Ready"},
		"empty":          {conditions([]any{}), "*unstructured.Unstructured has no condition Ready"},
		"others":         {conditions([]any{map[string]any{"type": "Other", "status": "True"}}), "*unstructured.Unstructured has no condition Ready"},
		"words":          {conditions([]any{"Ready", int64(7), nil}), "*unstructured.Unstructured has no condition Ready"},
		"no list":        {conditions("Ready"), "reading conditions of *unstructured.Unstructured"},
		"unknown status": {conditions([]any{map[string]any{"type": "Ready", "status": "Unknown", "reason": "R", "message": "m"}}), "condition Ready: R: m"},
		"wrong type":     {conditions([]any{map[string]any{"type": "Ready", "status": true}}), "reading condition Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			said := failure(t, func(r *recorder) { testkit.ExpectCondition(r, tc.obj, "Ready", metav1.ConditionTrue, "") })
			require.Contains(t, said, tc.want)
		})
	}
	good := conditions([]any{map[string]any{"type": "Ready", "status": "True", "reason": "R", "message": "m", "observedGeneration": int64(3)}})
	found := testkit.ExpectCondition(t, good, "Ready", metav1.ConditionTrue, "R")
	require.Equal(t, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", Message: "m", ObservedGeneration: 3}, found)
	good.SetGeneration(3)
	testkit.ExpectObserved(t, good)
	good.SetGeneration(4)
	require.Contains(t, failure(t, func(r *recorder) { testkit.ExpectObserved(r, good) }), "condition Ready")
}
