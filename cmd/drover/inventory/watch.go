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
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

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
		informer := dynamicinformer.NewFilteredDynamicInformer(a.Dynamic, ResourceOf(kind), o.Namespace, 0, cache.Indexers{},
			func(list *metav1.ListOptions) { list.LabelSelector = o.Selector }).Informer()
		// The reason of an interruption is reported unless it is the ordinary end of a watch.
		interrupted := func(ctx context.Context, _ *cache.Reflector, err error) {
			if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return
			}
			select {
			case changes <- Change{Err: fmt.Errorf("watching %s: %w", kind.Resource, err)}:
			case <-ctx.Done():
			}
		}
		_, err := informer.AddEventHandler(forward(ctx, kind, changes))
		if err = errors.Join(err, informer.SetWatchErrorHandlerWithContext(interrupted)); err != nil {
			return nil, fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	go func() {
		running.Wait()
		close(changes)
	}()
	return changes, nil
}

// forward sends an informer's events into the channel, until the context ends.
func forward(ctx context.Context, kind facts.Kind, changes chan<- Change) cache.ResourceEventHandler {
	send := func(object any, deleted bool) {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		m, err := facts.DecodeMachine(kind, u.Object)
		if err != nil {
			return
		}
		select {
		case changes <- Change{Machine: m, Deleted: deleted}:
		case <-ctx.Done():
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object, false) },
		UpdateFunc: func(_, object any) { send(object, false) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			send(object, true)
		},
	}
}

// Brief limits requests made only for the user's convenience, such as completions, which are not
// worth a wait.
const Brief = 3 * time.Second
