package nodedriver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

// UserWatch follows the objects of a driver's kinds, by metadata: those of NodeDrivers that were not brought along, which are held while
// they have machines, and those that a NodeDriver waits for to change or go.
// It is a manager.Runnable, so that everything ends with the manager.
type UserWatch struct {
	client metadata.Interface
	events chan event.GenericEvent

	mu      sync.Mutex
	running map[string]context.CancelFunc
	closed  bool
}

// NewUserWatch makes a UserWatch.
func NewUserWatch(config *rest.Config) (*UserWatch, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	const buffer = 1024
	return &UserWatch{client: client, events: make(chan event.GenericEvent, buffer), running: map[string]context.CancelFunc{}}, nil
}

// Start waits for the end and then ends all watches.
func (w *UserWatch) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for name, cancel := range w.running {
		cancel()
		delete(w.running, name)
	}
	return nil
}

// Ensure wakes the NodeDriver whenever an object of its driver's kinds comes, is written by a user, or goes.
func (w *UserWatch) Ensure(nodeDriver, driverName string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[nodeDriver] != nil || w.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.running[nodeDriver] = cancel
	wake := func() {
		select {
		case w.events <- event.GenericEvent{Object: &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: nodeDriver}}}:
		case <-ctx.Done():
		}
	}
	for _, gvk := range kindsOf(driverName) {
		plural, _, _ := strings.Cut(crdgen.CRDName(gvk.Group, gvk.Kind), ".")
		informer := metadatainformer.NewFilteredMetadataInformer(w.client, gvk.GroupVersion().WithResource(plural), "", 0, cache.Indexers{}, nil).Informer()
		// A failed registration is one of a stopped informer, which this one is not.
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { wake() },
			UpdateFunc: func(before, after any) {
				was, isMeta := before.(*metav1.PartialObjectMetadata)
				is, areMeta := after.(*metav1.PartialObjectMetadata)
				if !isMeta || !areMeta || was.Generation != is.Generation {
					wake() // a status is written more often than all the rest
				}
			},
			DeleteFunc: func(any) { wake() },
		})
		go informer.RunWithContext(ctx)
	}
}

// Stop ends what Ensure began.
func (w *UserWatch) Stop(nodeDriver string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.running[nodeDriver]; cancel != nil {
		cancel()
		delete(w.running, nodeDriver)
	}
}
