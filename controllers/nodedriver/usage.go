package nodedriver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

const (
	// pageSize bounds the memory that looking for users takes.
	pageSize = 500
	// namesShown is how many objects a message names.
	namesShown = 5
)

// users are objects that need a driver's kinds, counted, the first ones by name.
type users struct {
	count int
	names []string
	// machines is true if not all users are templates and configs.
	machines bool
}

func (u *users) add(kind string, obj client.Object) {
	u.count++
	if len(u.names) < namesShown {
		u.names = append(u.names, kind+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
}

// use returns a clause about the use of it; it may be empty if the sentence has named it before.
func (u users) use(it string) string {
	if it != "" {
		it += " "
	}
	listed := strings.Join(u.names, ", ")
	if more := u.count - len(u.names); more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	if u.count == 1 {
		return fmt.Sprintf("1 object uses %s(%s)", it, listed)
	}
	return fmt.Sprintf("%d objects use %s(%s)", u.count, it, listed)
}

// kindsOf lists the kinds, machines first, because machines cost money.
func kindsOf(driverName string) []schema.GroupVersionKind {
	kinds := crdgen.KindsOf(driverName)
	return []schema.GroupVersionKind{
		{Group: crdgen.MachineGroup, Version: crdgen.Version, Kind: kinds.Machine},
		{Group: crdgen.MachineGroup, Version: crdgen.Version, Kind: kinds.MachineTemplate},
		{Group: crdgen.ConfigGroup, Version: crdgen.Version, Kind: kinds.Config},
	}
}

// servedKinds returns the kinds that have a CRD. A request for another kind would make the client
// repeat its API discovery.
func (r *Reconciler) servedKinds(ctx context.Context, driverName string) ([]schema.GroupVersionKind, error) {
	var out []schema.GroupVersionKind
	for _, gvk := range kindsOf(driverName) {
		crd, err := r.crd(ctx, gvk)
		if err != nil {
			return nil, err
		}
		if crd != nil {
			out = append(out, gvk)
		}
	}
	return out, nil
}

// crd reads the metadata of a kind's CRD, nil if it does not exist.
func (r *Reconciler) crd(ctx context.Context, gvk schema.GroupVersionKind) (*metav1.PartialObjectMetadata, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := r.opts.Reader.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(gvk.Group, gvk.Kind)}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CRD of %s: %w", gvk.Kind, err)
	}
	return crd, nil
}

// users finds every object of a driver's kinds, live, and the CAPI Machines that name a missing
// one.
func (r *Reconciler) users(ctx context.Context, driverName string) (users, error) {
	var all users
	kinds, err := r.servedKinds(ctx, driverName)
	if err != nil || len(kinds) == 0 {
		return users{}, err
	}
	machines := map[client.ObjectKey]bool{}
	for _, gvk := range kinds {
		err := r.each(ctx, gvk, func(obj *metav1.PartialObjectMetadata) {
			all.add(gvk.Kind, obj)
			if gvk.Kind == kindsOf(driverName)[0].Kind {
				machines[client.ObjectKeyFromObject(obj)] = true
			}
		})
		if err != nil {
			return users{}, err
		}
	}
	all.machines = len(machines) > 0
	err = r.eachCAPIMachine(ctx, driverName, func(machine *clusterv1.Machine) {
		if !machines[client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}] {
			all.add("CAPI Machine", machine)
			all.machines = true
		}
	})
	return all, err
}

// eachCAPIMachine iterates over the CAPI Machines in the cache that name a driver's machine.
// Cluster API cannot delete a CAPI Machine whose infrastructure kind is not served, even if that
// object no longer exists. It can delete a MachineSet or MachineDeployment whose template kind is
// not served.
func (r *Reconciler) eachCAPIMachine(ctx context.Context, driverName string, do func(*clusterv1.Machine)) error {
	var all clusterv1.MachineList
	if err := r.opts.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing CAPI Machines: %w", err)
	}
	for i := range all.Items {
		if all.Items[i].Spec.InfrastructureRef.GroupKind() == kindsOf(driverName)[0].GroupKind() {
			do(&all.Items[i])
		}
	}
	return nil
}

// hasMachines reports whether a machine of a driver exists, or a CAPI Machine that names one.
func (r *Reconciler) hasMachines(ctx context.Context, driverName string) (bool, error) {
	kind := kindsOf(driverName)[0]
	crd, err := r.crd(ctx, kind)
	if err != nil || crd == nil {
		return false, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = r.opts.Reader.List(ctx, list, client.Limit(1))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil // the kind is not served yet, or no longer
	}
	if err != nil {
		return false, fmt.Errorf("finding a %s: %w", kind.Kind, err)
	}
	has := len(list.Items) > 0
	if !has {
		err = r.eachCAPIMachine(ctx, driverName, func(*clusterv1.Machine) { has = true })
	}
	return has, err
}

// fieldUsers returns the objects that set each field.
func (r *Reconciler) fieldUsers(ctx context.Context, driverName string, present []crdgen.Field) (map[string]users, error) {
	kinds, err := r.servedKinds(ctx, driverName)
	if err != nil {
		return nil, err
	}
	byField := map[string]users{}
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.pages(ctx, list, func() {
			for i := range list.Items {
				for field := range given(&list.Items[i], present) {
					of := byField[field]
					of.add(gvk.Kind, &list.Items[i])
					byField[field] = of
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return byField, nil
}

// each reads the metadata of all objects of a kind.
func (r *Reconciler) each(ctx context.Context, gvk schema.GroupVersionKind, do func(*metav1.PartialObjectMetadata), of ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return r.pages(ctx, list, func() {
		for i := range list.Items {
			do(&list.Items[i])
		}
	}, of...)
}

// pages reads a list piece by piece. A kind that is not served has no objects.
func (r *Reconciler) pages(ctx context.Context, list client.ObjectList, page func(), of ...client.ListOption) error {
	options := (&client.ListOptions{Limit: pageSize}).ApplyOptions(of)
	for {
		err := r.opts.Reader.List(ctx, list, options)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", list.GetObjectKind().GroupVersionKind().Kind, err)
		}
		page()
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// given returns the part of an object that holds the driver's flags. A default that the API server
// wrote into a config does not count: no user set it, and no user can remove it.
func given(obj *unstructured.Unstructured, present []crdgen.Field) map[string]any {
	path := []string{"spec"}
	switch {
	case obj.GroupVersionKind().Group == crdgen.ConfigGroup:
		for _, field := range present {
			if field.IsDefault(obj.Object[field.Name]) {
				delete(obj.Object, field.Name)
			}
		}
		return obj.Object
	case strings.HasSuffix(obj.GetKind(), "MachineTemplate"):
		path = []string{"spec", "template", "spec"}
	}
	spec, _, err := unstructured.NestedMap(obj.Object, path...)
	if err != nil {
		return nil
	}
	return spec
}

// UserWatch follows the objects of a driver's kinds, by metadata. It covers NodeDrivers that are
// not predefined, which are kept while they have machines, and objects whose change or deletion a
// NodeDriver waits for. It is a manager.Runnable, so that it ends with the manager.
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
		return nil, fmt.Errorf("creating a metadata client: %w", err)
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

// Ensure wakes the NodeDriver whenever an object of its driver's kinds is created, changed by a
// user, or deleted.
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
				was, is := before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata) //nolint:forcetypeassert // this informer has nothing else
				if was.Generation != is.Generation {
					wake() // a status is written more often than all the rest
				}
			},
			DeleteFunc: func(any) { wake() },
		})
		go informer.RunWithContext(ctx)
	}
}

// Stop ends the watches that Ensure started.
func (w *UserWatch) Stop(nodeDriver string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cancel := w.running[nodeDriver]; cancel != nil {
		cancel()
		delete(w.running, nodeDriver)
	}
}
