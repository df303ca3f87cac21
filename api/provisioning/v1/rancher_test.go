package v1_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

// rancher are the Clusters of the manifests in Rancher's shape, by file.
func rancher(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../../provisioning/testdata/rancher/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 12)
	clusters := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(content), "\n---\n")
		raw, err := yaml.YAMLToJSONStrict([]byte(first))
		require.NoError(t, err, file)
		obj := &unstructured.Unstructured{}
		require.NoError(t, obj.UnmarshalJSON(raw), file)
		clusters[filepath.Base(file)] = obj
	}
	return clusters
}

// TestCluster_rancher: the API server stores manifests in Rancher's shape as they are, with strict
// validation.
func TestCluster_rancher(t *testing.T) {
	c := client.WithFieldValidation(testkit.Client(t, runtime.NewScheme()), metav1.FieldValidationStrict)
	namespace := testkit.Namespace(t)
	for name, cluster := range rancher(t) {
		cluster.SetNamespace(namespace)
		given := cluster.DeepCopy()
		require.NoError(t, c.Create(t.Context(), cluster), name)
		requireContains(t, name, cluster.Object["spec"], given.Object["spec"])
		require.NoError(t, c.Update(t.Context(), cluster), name)
		applied := client.ApplyConfigurationFromUnstructured(given)
		require.NoError(t, c.Apply(t.Context(), applied, client.FieldOwner("gitops"), client.ForceOwnership), name)
	}
}

// requireContains requires every given value in the stored ones. A null stands for no value.
func requireContains(t *testing.T, path string, stored, given any) {
	t.Helper()
	switch want := given.(type) {
	case nil:
	case map[string]any:
		has, ok := stored.(map[string]any)
		require.True(t, ok, path)
		for key, value := range want {
			requireContains(t, path+"."+key, has[key], value)
		}
	case []any:
		has, ok := stored.([]any)
		require.True(t, ok, path)
		require.Len(t, has, len(want), path)
		for i := range want {
			requireContains(t, path+"[]", has[i], want[i])
		}
	default:
		require.Equal(t, given, stored, path)
	}
}

// TestCluster_rancherFields: together the manifests in Rancher's shape have every field.
func TestCluster_rancherFields(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	i := slices.IndexFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Name == "clusters."+provv1.GroupVersion.Group
	})
	require.GreaterOrEqual(t, i, 0)
	spec := crds[i].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	var values []any
	for _, cluster := range rancher(t) {
		values = append(values, cluster.Object["spec"])
	}
	checked := 0
	covered(t, "spec", spec, values, &checked)
	require.Greater(t, checked, 150)
}

// covered requires a value of each field of a schema.
func covered(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps, values []any, checked *int) {
	t.Helper()
	values = slices.DeleteFunc(slices.Clone(values), func(value any) bool { return value == nil })
	if !assertSome(t, path, values) {
		return
	}
	*checked++
	below := func(pick func(any) []any) (all []any) {
		for _, value := range values {
			all = append(all, pick(value)...)
		}
		return all
	}
	for name, property := range schema.Properties {
		covered(t, path+"."+name, property, below(func(value any) []any {
			fields, _ := value.(map[string]any)
			return []any{fields[name]}
		}), checked)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		covered(t, path+"[]", *schema.Items.Schema, below(func(value any) []any {
			items, _ := value.([]any)
			return items
		}), checked)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		covered(t, path+"{}", *schema.AdditionalProperties.Schema, below(func(value any) (all []any) {
			entries, _ := value.(map[string]any)
			for _, entry := range entries {
				all = append(all, entry)
			}
			return all
		}), checked)
	}
}

func assertSome(t *testing.T, path string, values []any) bool {
	t.Helper()
	if len(values) == 0 {
		t.Errorf("no manifest in provisioning/testdata/rancher has %s", path)
	}
	return len(values) > 0
}
