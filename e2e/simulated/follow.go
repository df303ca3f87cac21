package simulated

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Follow reports of every object of a kind, until the context ends. It has an informer, for an API server closes a watch whose
// reader is slow.
func Follow(ctx context.Context, config *rest.Config, namespace string, what schema.GroupVersionResource, see func(watch.EventType, *unstructured.Unstructured)) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("watching %s: %w", what.Resource, err)
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, what, namespace, 0, cache.Indexers{}, nil).Informer()
	tell := func(event watch.EventType, obj any) {
		if gone, missed := obj.(cache.DeletedFinalStateUnknown); missed {
			obj = gone.Obj
		}
		if object, ok := obj.(*unstructured.Unstructured); ok {
			see(event, object)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(watch.Added, obj) },
		UpdateFunc: func(_, obj any) { tell(watch.Modified, obj) },
		DeleteFunc: func(obj any) { tell(watch.Deleted, obj) },
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", what.Resource, err)
	}
	informer.RunWithContext(ctx)
	return ctx.Err()
}
