package capi

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// A kind is served a moment after its CRD says so, which is soon looked at a few times; and now and then without a word.
const (
	servedSoon  = 10 * time.Second
	soon        = 100 * time.Millisecond
	nowAndThen  = 30 * time.Second
	crdKindName = "CustomResourceDefinition"
)

// rewatch has drivers' kinds that were removed and made again watched again at once. Cluster API watches a kind once and for
// all, and what watches it backs off for as long as half a minute while the kind is gone; a Machine that is made meanwhile
// then waits as long for what it does not find.
type rewatch struct {
	mu sync.Mutex
	// changed is closed when a driver's CRD changes, and at is when one did last.
	changed chan struct{}
	at      time.Time
}

func newRewatch() *rewatch { return &rewatch{changed: make(chan struct{})} }

// newInformer is for cache.Options: informers of CRDs tell, and those of drivers' kinds listen.
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
		_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: r.tell, UpdateFunc: func(_, obj any) { r.tell(obj) }})
	}
	return informer
}

// list waits for a kind that is not there instead of failing, for after a failure nobody looks for a while.
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

// tell wakes those who wait for a driver's kind.
func (r *rewatch) tell(obj any) {
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
