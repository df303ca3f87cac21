package capi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

var errStillThere = errors.New("it is still there")

func testContext(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}

// started makes the manager's cache and runs it.
func started(t *testing.T, opts cache.Options, through ...transport.WrapperFunc) cache.Cache {
	t.Helper()
	opts.Scheme = newScheme(t)
	config := testkit.Config(t)
	config.Wrap(transport.Wrappers(through...))
	made, err := capi.NewCache(config, opts)
	require.NoError(t, err)
	run(t, made, made)
	return made
}

func metadataOf(kind string, group ...string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	version := corev1.SchemeGroupVersion
	if len(group) > 0 {
		version = apiextensionsv1.SchemeGroupVersion
	}
	obj.SetGroupVersionKind(version.WithKind(kind))
	return obj
}

func secret(namespace, name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels,
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":{"key":"marker-secret"}}`, "kept": "yes"}},
		Data: map[string][]byte{"key": []byte("marker-secret"), "value": []byte("marker-secret")}}
}

// A user who may write Secrets fills nothing with them, whatever they are called and wherever he puts his bytes.
func TestCache_holdsNoBigSecrets(t *testing.T) {
	namespace := testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	const number, size = 60, 900 << 10
	before := heap()
	for i := range number {
		kubeconfig := secret(namespace, fmt.Sprintf("c%d-kubeconfig", i), map[string]string{clusterv1.ClusterNameLabel: "c1"})
		kubeconfig.Data["value"] = bytes.Repeat([]byte("x"), size)
		kubeconfig.Annotations["big"] = strings.Repeat("x", 200<<10)
		for j := range 500 {
			kubeconfig.Labels[fmt.Sprintf("l%d.%s/x", j, strings.Repeat("x", 200))] = strings.Repeat("x", 63)
		}
		require.NoError(t, direct.Create(t.Context(), kubeconfig))
	}
	t.Cleanup(func() {
		require.NoError(t, direct.DeleteAllOf(testContext(t), &corev1.Secret{}, client.InNamespace(namespace)))
	})
	cached := started(t, cache.Options{})
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	require.NoError(t, cached.List(t.Context(), list, client.InNamespace(namespace)))
	require.Len(t, list.Items, number)
	require.Empty(t, list.Items[0].Labels)
	require.Error(t, cached.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "c1-kubeconfig"}, &corev1.Secret{}))
	// Other tests' API connections share this heap, so that the bound is far above what the cache takes (1 MiB) and far below the Secrets.
	require.Less(t, heap()-before, 24<<20, "of %d MiB", number*(size+(330<<10))>>20)
}

// heap is what is in use after a collection.
func heap() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// The manager's memory holds no secret.
func TestCache_holdsNoSecrets(t *testing.T) {
	ours := map[string]string{clusterv1.ClusterNameLabel: "c1"}
	namespace := testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	for _, s := range []*corev1.Secret{secret(namespace, "cloud-credential", nil), secret(namespace, "c1-kubeconfig", ours), secret(namespace, "c1-ca", ours)} {
		require.NoError(t, direct.Create(t.Context(), s))
	}
	cached := started(t, cache.Options{})
	for _, name := range []string{"cloud-credential", "c1-kubeconfig", "c1-ca"} {
		require.Error(t, cached.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{}))

		meta := metadataOf("Secret")
		require.NoError(t, cached.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, meta), "metadata are there of all")
		require.Equal(t, map[string]string{"kept": "yes"}, meta.Annotations, "what kubectl applied has the secret in it")
		require.Empty(t, meta.ManagedFields)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	require.NoError(t, cached.List(t.Context(), list, client.InNamespace(namespace)))
	require.Len(t, list.Items, 3)
}

func TestCache_holdsNoSchemas(t *testing.T) {
	fields, err := crdgen.FieldsOf("cached", []crdgen.Flag{{Name: "cached-region", Type: crdgen.String}}, crdgen.Rules{})
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "cached", Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, config, template, machine)
	cached := started(t, cache.Options{})

	got := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, cached.Get(t.Context(), client.ObjectKey{Name: machine.Name}, got))
	require.Nil(t, got.Spec.Versions[0].Schema)
	require.Empty(t, got.ManagedFields)
	back, err := crdgen.FieldsFromCRD(got)
	require.NoError(t, err, "what the controllers read of a CRD is there")
	require.Equal(t, "region", back[0].Name)

	clusters := client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}
	require.Error(t, cached.Get(t.Context(), clusters, &apiextensionsv1.CustomResourceDefinition{}), "not a driver's")
	meta := metadataOf("CustomResourceDefinition", "apiextensions.k8s.io")
	require.NoError(t, cached.Get(t.Context(), clusters, meta))
	require.Equal(t, "cluster-api", meta.Labels["cluster.x-k8s.io/provider"], "labels are what contracts are read from")
}

// A tenant's control planes of a megabyte each take no more than that: decoded they would be thirty times as large, and thirty of them the manager's end.
func TestCache_holdsNoFreeForm(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crds...)
	namespace := testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c1", "machineGlobalConfig": map[string]any{"a": []any{[]any{}, []any{}}}}}}
	object.SetGroupVersionKind(rkev1.GroupVersion.WithKind("RKEControlPlane"))
	object.SetNamespace(namespace)
	object.SetName("c1")
	require.NoError(t, direct.Create(t.Context(), object.DeepCopy()))
	require.NoError(t, started(t, cache.Options{}).Get(t.Context(), client.ObjectKeyFromObject(object), object))
	require.Equal(t, map[string]any{"clusterName": "c1"}, object.Object["spec"])
}

// addedTo are the names of what an informer sees.
func addedTo(t *testing.T, informer cache.Informer) <-chan string {
	t.Helper()
	added := make(chan string, 1000)
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if o, ok := obj.(client.Object); ok {
			added <- o.GetName()
		}
	}})
	require.NoError(t, err)
	return added
}

// Two caches behave as one to those who watch, index and stop watching.
func TestCache_informersOfBoth(t *testing.T) {
	namespace := testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	cached := started(t, cache.Options{})
	for name, watched := range map[string]client.Object{"metadata": metadataOf("Secret"), "content": &corev1.Node{}} {
		t.Run(name, func(t *testing.T) {
			informer, err := cached.GetInformer(t.Context(), watched)
			require.NoError(t, err)
			added := addedTo(t, informer)
			var made client.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "seen-by-the-cache"}}
			if name == "metadata" {
				made = secret(namespace, "seen-by-the-cache", nil)
			}
			require.NoError(t, direct.Create(t.Context(), made))
			for seen := ""; seen != "seen-by-the-cache"; {
				select {
				case seen = <-added:
				case <-t.Context().Done():
					require.Fail(t, "not seen")
				}
			}
			require.NoError(t, cached.RemoveInformer(t.Context(), watched))
			require.NoError(t, direct.Delete(t.Context(), made))
		})
	}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	require.NoError(t, cached.IndexField(t.Context(), &corev1.Namespace{}, "byName", byName))
	var found corev1.NamespaceList
	require.NoError(t, cached.List(t.Context(), &found, client.MatchingFields{"byName": namespace}))
	require.Len(t, found.Items, 1)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// A kind that is removed and made again, twice, is watched again as soon as it is there: whoever watched it goes on.
func TestCache_kindsThatComeAgain(t *testing.T) {
	namespace := testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	fields, err := crdgen.FieldsOf("again", []crdgen.Flag{{Name: "again-region", Type: crdgen.String}}, crdgen.Rules{})
	require.NoError(t, err)
	_, _, crd, err := crdgen.CRDs(crdgen.Schema{Driver: "again", Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crd)
	missed := make(chan struct{}, 1000)
	cached := started(t, cache.Options{}, func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && resp.StatusCode == http.StatusNotFound && path.Base(req.URL.Path) == crd.Spec.Names.Plural && req.URL.Query().Get("watch") == "" {
				missed <- struct{}{}
			}
			return resp, err
		})
	})
	_, err = cached.GetInformer(t.Context(), metadataOf("CustomResourceDefinition", "apiextensions.k8s.io"))
	require.NoError(t, err)
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(crd.Spec.Names.Kind))
	machine.SetNamespace(namespace)
	machine.Object["spec"] = map[string]any{}
	informer, err := cached.GetInformer(t.Context(), machine.DeepCopy())
	require.NoError(t, err)
	seen := addedTo(t, informer)
	for _, name := range []string{"first", "second"} {
		require.NoError(t, direct.Delete(t.Context(), crd.DeepCopy()))
		for len(missed) > 0 {
			<-missed
		}
		<-missed
		testkit.ApplyCRDs(t, crd.DeepCopy())
		obj := machine.DeepCopy()
		obj.SetName(name)
		require.NoError(t, direct.Create(t.Context(), obj))
		select {
		case got := <-seen:
			require.Equal(t, name, got)
		case <-time.After(20 * time.Second): // less than the half minute after which anybody looks again
			require.Fail(t, "not seen at once", name)
		}
		require.NoError(t, direct.Delete(t.Context(), obj))
	}
}

func TestCache_wantsAnAddress(t *testing.T) {
	config := testkit.Config(t)
	config.Host = "://"
	_, err := capi.NewCache(config, cache.Options{Scheme: newScheme(t)})
	require.ErrorContains(t, err, "creating the cache: ")
}

// What a manager asks of the cache for itself stays as it was asked.
func TestCache_keepsTheManagersOwnSelectors(t *testing.T) {
	namespace, other := testkit.Namespace(t), testkit.Namespace(t)
	direct := testkit.Client(t, newScheme(t))
	for _, in := range []string{namespace, other} {
		require.NoError(t, direct.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "chosen"}}))
	}
	opts := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{namespace: {}}}}}
	cached := started(t, opts)
	require.Len(t, opts.ByObject, 1, "the caller's map is the caller's")
	require.NoError(t, cached.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "chosen"}, &corev1.ConfigMap{}))
	require.Error(t, cached.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "chosen"}, &corev1.ConfigMap{}))
}
