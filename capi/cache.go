package capi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// NewCache creates the manager's cache. It holds the metadata of all Secrets and ConfigMaps, and
// the content of no Secret. It holds the metadata of all CRDs, and of drivers' CRDs all but the
// schema. Other objects are read live.
func NewCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	ofDriver, err := labels.NewRequirement(rkev1.NodeDriverLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("building the selector of drivers' CRDs: %w", err)
	}
	opts.NewInformer = (&rewatch{changed: make(chan struct{})}).newInformer
	contents := opts
	contents.ByObject = map[client.Object]cache.ByObject{}
	maps.Copy(contents.ByObject, opts.ByObject)
	contents.ByObject[&corev1.Secret{}] = cache.ByObject{Transform: refuseSecret}
	contents.ByObject[&apiextensionsv1.CustomResourceDefinition{}] = cache.ByObject{Label: labels.NewSelector().Add(*ofDriver), Transform: dropSchema}
	contents.DefaultTransform = func(in any) (any, error) {
		dropManagedFields(in)
		return dropFreeForm(in)
	}
	main, err := cache.New(config, contents)
	if err != nil {
		return nil, fmt.Errorf("creating the cache: %w", err)
	}
	opts.ByObject = nil
	opts.DefaultTransform = onlyMetadata
	metadata, err := cache.New(config, opts)
	if err != nil {
		return nil, fmt.Errorf("creating the cache of metadata: %w", err)
	}
	return &splitCache{Cache: main, metadata: metadata}, nil
}

// ClientOptions are the options of the manager's client: it reads Secrets and ConfigMaps live, and
// caches unstructured objects.
func ClientOptions() client.Options { return setup.ManagerClientOptions() }

// ControllerOptions are the options of all controllers of the manager: no priority queue, for the
// reason given at the feature gates.
func ControllerOptions() config.Controller { return config.Controller{UsePriorityQueue: new(false)} }

// refuseSecret rejects Secrets with content, so that none are held in memory: a user may create any
// number of a megabyte each. Their content is read when needed.
func refuseSecret(in any) (any, error) {
	return nil, fmt.Errorf("Secrets must be read from the API server, not from the cache: %T", in)
}

// dropFreeForm drops the free-form fields of an RKEControlPlane that Cluster API watches: a decoded
// megabyte of empty lists takes some thirty megabytes. Our own controller keeps them as bytes. A
// write is the difference of two objects that both lack the fields.
func dropFreeForm(in any) (any, error) {
	obj, ok := in.(*unstructured.Unstructured)
	if !ok || obj.GroupVersionKind().GroupKind() != rkev1.GroupVersion.WithKind("RKEControlPlane").GroupKind() {
		return in, nil
	}
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return in, nil
	}
	maps.DeleteFunc(spec, func(_ string, value any) bool {
		switch value.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	})
	obj.SetManagedFields(nil)
	return in, nil
}

func dropSchema(in any) (any, error) {
	if crd, ok := in.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.SetManagedFields(nil)
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
	}
	return in, nil
}

// onlyMetadata guards the memory: a Secret asked for in full would be held in full.
func onlyMetadata(in any) (any, error) {
	obj, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("the metadata cache does not support %T", in)
	}
	obj.SetManagedFields(nil)
	delete(obj.Annotations, corev1.LastAppliedConfigAnnotation)
	if (obj.Kind == "Secret" || obj.Kind == "ConfigMap") && obj.ObjectMeta.Size() > maxMetadata {
		// Drop labels, annotations and all owners but the first: a user may write a megabyte there.
		// A caller that needs them must read the object.
		owners := obj.OwnerReferences[:min(len(obj.OwnerReferences), 1)]
		obj.ObjectMeta = metav1.ObjectMeta{Name: obj.Name, Namespace: obj.Namespace, UID: obj.UID, ResourceVersion: obj.ResourceVersion,
			CreationTimestamp: obj.CreationTimestamp, DeletionTimestamp: obj.DeletionTimestamp, OwnerReferences: slices.Clone(owners)}
	}
	return obj, nil
}

// maxMetadata is how many bytes the metadata of one Secret or ConfigMap may have in memory.
const maxMetadata = 8 << 10

// splitCache serves requests for the metadata of Secrets, ConfigMaps or CRDs from a cache that
// holds all of them, and other requests from one that holds few. One cache cannot do both, because
// its selectors are per kind.
type splitCache struct {
	cache.Cache
	metadata cache.Cache
}

var _ cache.Cache = (*splitCache)(nil)

func (s *splitCache) of(obj runtime.Object) cache.Cache {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
	default:
		return s.Cache
	}
	kind := obj.GetObjectKind().GroupVersionKind()
	switch (schema.GroupKind{Group: kind.Group, Kind: strings.TrimSuffix(kind.Kind, "List")}) {
	case schema.GroupKind{Group: corev1.GroupName, Kind: "Secret"}, schema.GroupKind{Group: corev1.GroupName, Kind: "ConfigMap"}, schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}:
		return s.metadata
	}
	return s.Cache
}

// Get implements client.Reader.
func (s *splitCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return s.of(obj).Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (s *splitCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.of(list).List(ctx, list, opts...)
}

// GetInformer implements cache.Informers.
func (s *splitCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return s.of(obj).GetInformer(ctx, obj, opts...)
}

// RemoveInformer implements cache.Informers.
func (s *splitCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	return s.of(obj).RemoveInformer(ctx, obj)
}

// IndexField implements client.FieldIndexer.
func (s *splitCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return s.of(obj).IndexField(ctx, obj, field, extract)
}

// Start runs both until the context ends.
func (s *splitCache) Start(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.metadata.Start(ctx) }()
	if err := s.Cache.Start(ctx); err != nil {
		return err
	}
	return <-done
}

// WaitForCacheSync waits for both.
func (s *splitCache) WaitForCacheSync(ctx context.Context) bool {
	return s.Cache.WaitForCacheSync(ctx) && s.metadata.WaitForCacheSync(ctx)
}

// A kind is served a moment after its CRD is established: it is polled often for a short time after
// a change, and rarely without one.
const (
	servedSoon  = 10 * time.Second
	soon        = 100 * time.Millisecond
	nowAndThen  = 30 * time.Second
	crdKindName = "CustomResourceDefinition"
)

// rewatch restores the watch of a driver's kind as soon as the kind is created again after its
// removal. Cluster API watches a kind once and for all, and its watch backs off for up to half a
// minute while the kind is missing. A Machine that is created in this time would wait as long.
type rewatch struct {
	mu sync.Mutex
	// changed is closed when a driver's CRD changes, and at is when one did last.
	changed chan struct{}
	at      time.Time
}

// newInformer is for cache.Options: informers of CRDs notify, and informers of drivers' kinds
// listen.
func (r *rewatch) newInformer(from toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if ofDriver(gvk.Group) {
		inner := toolscache.ToListerWatcherWithContext(from)
		from = &toolscache.ListWatch{WatchFuncWithContext: inner.WatchWithContext, ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return r.list(ctx, inner, opts)
		}}
	}
	informer := toolscache.NewSharedIndexInformer(from, obj, resync, indexers)
	if _, typed := obj.(*apiextensionsv1.CustomResourceDefinition); typed || gvk.Kind == crdKindName {
		// It fails for an informer that has stopped, and this one has not begun.
		_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: r.notify, UpdateFunc: func(_, obj any) { r.notify(obj) }})
	}
	return informer
}

// list waits for a missing kind instead of failing, because the caller backs off after a failure.
func (r *rewatch) list(ctx context.Context, from toolscache.ListerWithContext, opts metav1.ListOptions) (runtime.Object, error) {
	for {
		r.mu.Lock()
		changed, again := r.changed, nowAndThen
		if time.Since(r.at) < servedSoon {
			again = soon
		}
		r.mu.Unlock()
		list, err := from.ListWithContext(ctx, opts)
		if !apierrors.IsNotFound(err) {
			return list, err
		}
		select {
		case <-changed:
		case <-time.After(again):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// notify wakes the callers that wait for a driver's kind.
func (r *rewatch) notify(obj any) {
	crd, ok := obj.(client.Object)
	if !ok {
		return
	}
	if _, group, _ := strings.Cut(crd.GetName(), "."); !ofDriver(group) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed, r.at = make(chan struct{}), time.Now()
}

func ofDriver(group string) bool {
	return slices.Contains([]string{rkev1.MachineGroupVersion.Group, rkev1.MachineConfigGroupVersion.Group}, group)
}
