package capi

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// named tells two caches apart.
type named struct {
	cache.Cache
	name string
}

func metadata(group, version, kind string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return obj
}

func metadataList(group, version, kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return list
}

func TestSplitCache_whoGetsWhich(t *testing.T) {
	split := &splitCache{Cache: &named{name: "content"}, metadata: &named{name: "metadata"}}
	for name, tt := range map[string]struct {
		obj  runtime.Object
		want string
	}{
		"a Secret":               {&corev1.Secret{}, "content"},
		"a Secret, unstructured": {&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}, "content"},
		"a Secret's metadata":    {metadata("", "v1", "Secret"), "metadata"},
		"Secrets' metadata":      {metadataList("", "v1", "SecretList"), "metadata"},
		"a CRD":                  {&apiextensionsv1.CustomResourceDefinition{}, "content"},
		"a CRD's metadata":       {metadata("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "metadata"},
		"CRDs' metadata":         {metadataList("apiextensions.k8s.io", "v1", "CustomResourceDefinitionList"), "metadata"},
		"a machine's metadata":   {metadata("rke-machine.cattle.io", "v1", "AcmeMachine"), "content"},
		"another group's Secret": {metadata("example.org", "v1", "Secret"), "content"},
		"a ConfigMap's metadata": {metadata("", "v1", "ConfigMap"), "metadata"},
		"metadata of nothing":    {&metav1.PartialObjectMetadata{}, "content"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := split.of(tt.obj).(*named)
			require.True(t, ok)
			require.Equal(t, tt.want, got.name)
		})
	}
}

func TestTransforms_letOnlyThroughWhatIsMeant(t *testing.T) {
	_, err := onlyMetadata(&corev1.Secret{})
	require.EqualError(t, err, "the cache of metadata was asked for a *v1.Secret")
	_, err = onlyMetadata(nil)
	require.Error(t, err)

	_, err = refuseSecret(&corev1.Secret{})
	require.Error(t, err)
	plane := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane", "metadata": map[string]any{"name": "a"},
		"spec":   map[string]any{"clusterName": "a", "machineGlobalConfig": map[string]any{"a": []any{[]any{}, []any{}}}},
		"status": map[string]any{"ready": true, "conditions": []any{}}}}
	kept := plane.DeepCopy()
	unstructured.RemoveNestedField(kept.Object, "spec", "machineGlobalConfig")
	out, err := dropFreeForm(plane)
	require.NoError(t, err)
	require.Equal(t, kept, out)

	for _, other := range []any{&corev1.ConfigMap{Data: map[string]string{"a": "b"}}, "text", nil} {
		for _, transform := range []func(any) (any, error){dropSchema, dropFreeForm} {
			out, err := transform(other)
			require.NoError(t, err)
			require.Equal(t, other, out)
		}
	}
}

// Runtime extensions, by which an object could have the manager call any address, are off.
func TestExtensions_areRefused(t *testing.T) {
	require.NoError(t, setGates())
	_, err := (&coreadmission.ExtensionConfig{}).ValidateCreate(t.Context(), nil)
	require.Error(t, err)
}

// Handover makes what Setup adds for the embedded core.
func Handover(informers cache.Informers, live client.Reader) manager.Runnable {
	return &handover{cache: informers, live: live}
}
