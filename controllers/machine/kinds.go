package machine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/crdgen"
)

// Request names a machine of any kind.
type Request struct {
	Kind schema.GroupVersionKind
	types.NamespacedName
}

// Controller reconciles the machines of all kinds that there are: one queue, one Reconciler per kind. A kind's watch starts
// when its CRD is established and stops when the CRD is gone.
type Controller struct {
	options    Options
	watchIndex *watchIndex
	metrics    *metrics
	breaker    *breaker.Breaker[Request]
	jobs       *jobs
	labelled   *labelled

	mu    sync.RWMutex
	kinds map[schema.GroupVersionKind]*Reconciler
	// names of the CRDs whose kinds are watched.
	names map[string]schema.GroupVersionKind
	// watch starts the watch of a kind; stop ends it.
	watch func(schema.GroupVersionKind) error
	stop  func(context.Context, schema.GroupVersionKind) error
}

// Reconcile hands a machine to the Reconciler of its kind.
func (c *Controller) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	c.mu.RLock()
	r := c.kinds[request.Kind]
	c.mu.RUnlock()
	if r == nil {
		return reconcile.Result{}, nil
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("kind", request.Kind.Kind, "machine", request.NamespacedName))
	return r.Reconcile(ctx, reconcile.Request{NamespacedName: request.NamespacedName})
}

// reconcileCRD starts and stops the kinds.
func (c *Controller) reconcileCRD(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.options.Live.Get(ctx, request.NamespacedName, crd)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading CRD %s: %w", request.Name, err)
	}
	if err != nil {
		// Not before it is gone: while a CRD is being deleted, its machines are too, and their servers must be removed.
		return reconcile.Result{}, c.removeKind(ctx, request.Name)
	}
	if !isMachineCRD(crd) || !established(crd) {
		return reconcile.Result{}, nil
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	return reconcile.Result{}, c.addKind(ctx, crd.Name, Kind{
		GVK: rkev1.MachineGroupVersion.WithKind(crd.Spec.Names.Kind), Driver: crd.Labels[rkev1.NodeDriverLabel], Fields: fields})
}

func (c *Controller) addKind(ctx context.Context, name string, kind Kind) error {
	c.mu.Lock()
	_, known := c.kinds[kind.GVK]
	c.kinds[kind.GVK] = c.For(kind)
	c.names[name] = kind.GVK
	c.mu.Unlock()
	if known {
		return nil
	}
	log.FromContext(ctx).Info("Starting to watch a kind of machine", "kind", kind.GVK.Kind, "driver", kind.Driver)
	if err := c.watch(kind.GVK); err != nil {
		c.mu.Lock()
		delete(c.kinds, kind.GVK)
		c.mu.Unlock()
		return fmt.Errorf("watching %s: %w", kind.GVK.Kind, err)
	}
	return nil
}

func (c *Controller) removeKind(ctx context.Context, name string) error {
	c.mu.Lock()
	gvk, known := c.names[name]
	delete(c.names, name)
	delete(c.kinds, gvk)
	c.mu.Unlock()
	if !known {
		return nil
	}
	ofKind := func(r Request) bool { return r.Kind == gvk }
	c.breaker.LeaveAll(ofKind, c.options.Clock.Now())
	c.jobs.ReleaseAll(ofKind)
	log.FromContext(ctx).Info("Stopping to watch a kind of machine", "kind", gvk.Kind)
	if err := c.stop(ctx, gvk); err != nil {
		return fmt.Errorf("stopping the watch of %s: %w", gvk.Kind, err)
	}
	return nil
}

func isMachineCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Group == rkev1.MachineGroupVersion.Group && strings.HasSuffix(crd.Spec.Names.Kind, "Machine") &&
		crd.Labels[rkev1.NodeDriverLabel] != ""
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// metadataOf is what a kind is watched as: the objects themselves are read when they are needed.
func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// stopWith removes the kind's informer and with it our handler. Nobody else watches these kinds by their metadata: Cluster
// API has informers of its own.
func stopWith(informers cache.Informers) func(context.Context, schema.GroupVersionKind) error {
	return func(ctx context.Context, gvk schema.GroupVersionKind) error {
		return informers.RemoveInformer(ctx, metadataOf(gvk))
	}
}
