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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
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
	require.EqualError(t, err, "the metadata cache does not support *v1.Secret")
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

// Of who owns which field stays what Cluster API's MachineSet controller looks at: that somebody does, and what it has still to give to another.
func TestDropManagedFields(t *testing.T) {
	owner := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const labelled = `{"f:metadata":{"f:labels":{"f:cluster.x-k8s.io/cluster-name":{}}}}`
	for name, tt := range map[string]struct {
		owners         []metav1.ManagedFieldsEntry
		machine, typed []string // the owners that are left of an infra machine and of a Machine, with + if they have their fields
	}{
		"nobody":                      {},
		"several":                     {[]metav1.ManagedFieldsEntry{owner("capi-machineset", `{"f:spec":{}}`), owner("manager", `{"f:status":{}}`)}, []string{"capi-machineset"}, []string{"capi-machineset"}},
		"labels of the right manager": {[]metav1.ManagedFieldsEntry{owner("capi-machineset-metadata", labelled), owner("capi-machineset", `{}`)}, []string{"capi-machineset-metadata"}, []string{"capi-machineset-metadata"}},
		"made by an older core":       {[]metav1.ManagedFieldsEntry{owner("x", "{}"), owner("capi-machineset", labelled)}, []string{"x+", "capi-machineset+"}, []string{"x"}},
		"lost":                        {[]metav1.ManagedFieldsEntry{owner("x", `{}`), owner("before-first-apply", labelled)}, []string{"x+", "before-first-apply+"}, []string{"x+", "before-first-apply+"}},
	} {
		t.Run(name, func(t *testing.T) {
			left := func(obj client.Object) (names []string) {
				dropManagedFields(obj)
				for _, owner := range obj.GetManagedFields() {
					fields := ""
					if owner.FieldsV1 != nil {
						fields = "+"
					}
					names = append(names, owner.Manager+fields)
				}
				return names
			}
			machine := &unstructured.Unstructured{Object: map[string]any{"apiVersion": rkev1.MachineGroupVersion.String(), "kind": "AcmeMachine"}}
			machine.SetManagedFields(tt.owners)
			require.Equal(t, tt.machine, left(machine))
			require.Equal(t, tt.typed, left(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{ManagedFields: tt.owners}}))
			require.Empty(t, left(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: tt.owners}}))
			other := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Other"}}
			other.SetManagedFields(tt.owners)
			require.Len(t, left(other), len(tt.owners))
		})
	}
	for _, odd := range []any{"text", nil, map[string]any{"managedFields": "x"}, map[string]any{"managedFields": []any{int64(1)}}} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": rkev1.MachineGroupVersion.String(), "kind": "AcmeMachine", "metadata": odd}}
		same := obj.DeepCopy()
		dropManagedFields(obj)
		require.Equal(t, same, obj)
	}
}

// Handover makes what Setup adds for the embedded core.
func Handover(informers cache.Informers, live client.Reader) manager.Runnable {
	return &handover{cache: informers, live: live}
}
