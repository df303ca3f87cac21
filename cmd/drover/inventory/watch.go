package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Change is a machine as it is now, or as it was last.
type Change struct {
	Machine *facts.Machine
	Deleted bool
	// Err is set alone: a kind could not be watched. It is tried again.
	Err error
}

// Watch reports every machine once and then each change, until the context ends; then it closes the
// channel. It reports interruptions and lists again after them, so several changes may arrive as
// one.
func (a *API) Watch(ctx context.Context, kinds []facts.Kind, o ListOptions) (<-chan Change, error) {
	changes := make(chan Change)
	var running sync.WaitGroup
	for _, kind := range kinds {
		informer, err := a.informer(ResourceOf(kind), o, func(u *unstructured.Unstructured, deleted bool) {
			if m, err := facts.DecodeMachine(kind, u.Object); err == nil {
				send(ctx, changes, Change{Machine: m, Deleted: deleted})
			}
		}, func(err error) { send(ctx, changes, Change{Err: err}) })
		if err != nil {
			return nil, err
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	go func() {
		running.Wait()
		close(changes)
	}()
	return changes, nil
}

// informer watches objects. It reports each object and change, and the reason of an interruption
// unless that is the ordinary end of a watch.
func (a *API) informer(resource schema.GroupVersionResource, o ListOptions, changed func(*unstructured.Unstructured, bool), interrupted func(error)) (cache.SharedIndexInformer, error) {
	informer := dynamicinformer.NewFilteredDynamicInformer(a.Dynamic, resource, o.Namespace, 0, cache.Indexers{}, func(list *metav1.ListOptions) {
		list.LabelSelector = o.Selector
		if o.name != "" {
			list.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.name).String()
		}
	}).Informer()
	report := func(object any, deleted bool) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if u, ok := object.(*unstructured.Unstructured); ok {
			changed(u, deleted)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { report(object, false) },
		UpdateFunc: func(_, object any) { report(object, false) },
		DeleteFunc: func(object any) { report(object, true) },
	})
	err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			interrupted(fmt.Errorf("watching %s: %w", resource.Resource, err))
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	return informer, nil
}

// send sends into a channel, until the context ends.
func send[T any](ctx context.Context, changes chan<- T, change T) {
	select {
	case changes <- change:
	case <-ctx.Done():
	}
}

// ClusterChange is a provisioning Cluster as it is now.
type ClusterChange struct {
	// Cluster is nil if it does not exist.
	Cluster *provv1.Cluster
	// Err is set alone: the Cluster could not be watched. It is tried again.
	Err error
}

// WatchCluster reports a provisioning Cluster once and then each change, until the context ends; then
// it closes the channel. It also reports a Cluster that does not exist when the watch begins.
func (a *API) WatchCluster(ctx context.Context, namespace, name string) (<-chan ClusterChange, error) {
	changes := make(chan ClusterChange)
	informer, err := a.informer(provisioned, ListOptions{Namespace: namespace, name: name}, func(u *unstructured.Unstructured, deleted bool) {
		if deleted {
			send(ctx, changes, ClusterChange{})
			return
		}
		cluster, err := decodeCluster(u)
		send(ctx, changes, ClusterChange{Cluster: cluster, Err: err})
	}, func(err error) { send(ctx, changes, ClusterChange{Err: err}) })
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) && len(informer.GetStore().ListKeys()) == 0 {
			send(ctx, changes, ClusterChange{})
		}
	})
	go func() {
		running.Wait()
		close(changes)
	}()
	return changes, nil
}

// Brief limits requests made only for the user's convenience, such as completions, which are not
// worth a wait.
const Brief = 3 * time.Second
