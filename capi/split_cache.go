package capi

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// splitCache sends those who want the metadata of Secrets or CRDs to a cache that knows them all, everyone else to one that
// knows few. One cache cannot do both, for its selectors go by kind.
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
	case schema.GroupKind{Group: corev1.GroupName, Kind: "Secret"}, schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}:
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
