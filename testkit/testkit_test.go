package testkit_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.WithCRDs(widgets("early"))) }

// widgets is a definition with a status and one field that has a rule.
func widgets(plural string) *apiextensionsv1.CustomResourceDefinition {
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer", XValidations: apiextensionsv1.ValidationRules{{Rule: "self < 10", Message: "too large"}}},
	}}
	status := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".testkit.drover.example"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "testkit.drover.example",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "Widget" + plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": status},
				}},
			}},
		},
	}
}

func widget(plural, namespace string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "testkit.drover.example/v1",
		"kind":       "Widget" + plural,
		"metadata":   map[string]any{"name": "w", "namespace": namespace},
		"spec":       map[string]any{"size": size},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "Waiting", "message": "for a reason",
			"lastTransitionTime": "2026-01-01T00:00:00Z",
		}}},
	}}
}

func TestApplyCRDs(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	ns := testkit.Namespace(t)
	testkit.ExpectApplied(t, c, widget("early", ns, 1))

	testkit.ApplyCRDs(t, widgets("late"))
	testkit.ApplyCRDs(t, widgets("late"))
	obj := widget("late", ns, 2)
	testkit.ExpectApplied(t, c, obj)
	testkit.ExpectCondition(t, obj, "Ready", metav1.ConditionFalse, "Waiting")
	testkit.ExpectNoCondition(t, obj, "Other")

	require.NoError(t, unstructured.SetNestedField(obj.Object, int64(11), "spec", "size"))
	require.True(t, apierrors.IsInvalid(c.Update(t.Context(), obj)), "CEL rules hold")
}

func TestExpectReconciled(t *testing.T) {
	c := testkit.Client(t, scheme.Scheme)
	pod := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: testkit.Namespace(t)}}
	testkit.ExpectApplied(t, c, pod)
	remove := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		obj := &corev1.ConfigMap{}
		if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: time.Second}, c.Delete(ctx, obj)
	})

	testkit.ExpectExists(t, c, pod)
	require.Equal(t, time.Second, testkit.ExpectReconciled(t, remove, pod).RequeueAfter)
	testkit.ExpectNotFound(t, c, pod)
	require.True(t, apierrors.IsNotFound(testkit.ExpectReconcileError(t, remove, pod)))
}

func TestConfig_speaks_for_an_administrator_under_RBAC(t *testing.T) {
	config := testkit.Config(t)
	stranger := rest.AnonymousClientConfig(config)
	stranger.Impersonate = rest.ImpersonationConfig{}
	c, err := client.New(stranger, client.Options{Scheme: scheme.Scheme})
	require.NoError(t, err)
	require.True(t, apierrors.IsForbidden(c.List(t.Context(), &corev1.SecretList{})), "anonymous may not read secrets")
	require.NoError(t, testkit.Client(t, scheme.Scheme).List(t.Context(), &corev1.SecretList{}))
}

func TestKubeconfig_is_private(t *testing.T) {
	info, err := os.Stat(testkit.Kubeconfig(t))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestEventually(t *testing.T) {
	calls := 0
	testkit.Eventually(t, time.Minute, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	require.Equal(t, 3, calls)
}
