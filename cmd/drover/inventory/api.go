package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Resources of the fixed kinds that are read.
var (
	nodeDrivers   = v3.GroupVersion.WithResource("nodedrivers")
	capiMachines  = clusterv1.GroupVersion.WithResource("machines")
	capiClusters  = clusterv1.GroupVersion.WithResource("clusters")
	provisioned   = provv1.GroupVersion.WithResource("clusters")
	controlPlanes = rkev1.GroupVersion.WithResource("rkecontrolplanes")
	machineSets   = clusterv1.GroupVersion.WithResource("machinesets")
	deployments   = clusterv1.GroupVersion.WithResource("machinedeployments")
)

// API is the management cluster.
type API struct {
	Dynamic dynamic.Interface
	Kube    kubernetes.Interface
}

// Kinds asks the API which kinds of machines it serves, sorted by name; none when no driver is
// active.
func (a *API) Kinds(ctx context.Context) ([]facts.Kind, error) {
	// The discovery client's own methods take no context, so that a completion would wait for a
	// server that is gone.
	list := &metav1.APIResourceList{}
	path := "/apis/" + rkev1.MachineGroupVersion.String()
	err := a.Kube.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Into(list)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the API for machine kinds: %w", err)
	}
	var kinds []facts.Kind
	for _, r := range list.APIResources {
		if kind, holdsMachines := facts.KindOf(r); holdsMachines {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b facts.Kind) int { return cmp.Compare(a.Name, b.Name) })
	return kinds, nil
}

// ResourceOf is where machines of a kind are in the API.
func ResourceOf(kind facts.Kind) schema.GroupVersionResource {
	return rkev1.MachineGroupVersion.WithResource(kind.Resource)
}

// ListOptions says which machines to list.
type ListOptions struct {
	// Namespace, or all when empty.
	Namespace string
	// Selector of labels; may be empty.
	Selector string
	// name of an object; any when empty.
	name string
}

// Machines lists the machines of the given kinds. A kind the user may not list is an error only
// when no kind can be listed; otherwise denied names it.
func (a *API) Machines(ctx context.Context, kinds []facts.Kind, o ListOptions) (machines []*facts.Machine, denied []string, err error) {
	lists, errs := ofEach(kinds, func(kind facts.Kind) ([]*facts.Machine, error) { return a.machinesOf(ctx, kind, o) })
	var refusals []error
	for i, err := range errs {
		if apierrors.IsForbidden(err) {
			refusals, denied = append(refusals, err), append(denied, kinds[i].Resource)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		machines = append(machines, lists[i]...)
	}
	if len(kinds) > 0 && len(refusals) == len(kinds) {
		return nil, nil, fmt.Errorf("listing machines: %w", joinRefusals(refusals))
	}
	return machines, denied, nil
}

// ofEach reads all kinds concurrently, because there may be many and the API server may be slow.
// Results and errors are in the order of the kinds.
func ofEach[T any](kinds []facts.Kind, read func(facts.Kind) (T, error)) (results []T, errs []error) {
	results, errs = make([]T, len(kinds)), make([]error, len(kinds))
	var reading sync.WaitGroup
	for i, kind := range kinds {
		reading.Go(func() { results[i], errs[i] = read(kind) })
	}
	reading.Wait()
	return results, errs
}

func (a *API) machinesOf(ctx context.Context, kind facts.Kind, o ListOptions) ([]*facts.Machine, error) {
	machines, err := list(ctx, a, ResourceOf(kind), o, func(u *unstructured.Unstructured) (*facts.Machine, error) { return facts.DecodeMachine(kind, u.Object) })
	if isAbsent(err) {
		// The kind went since it was discovered, and its machines with it.
		return nil, nil
	}
	return machines, err
}

// Machine gets one machine; nil when it does not exist.
func (a *API) Machine(ctx context.Context, kind facts.Kind, namespace, name string) (*facts.Machine, error) {
	u, err := a.object(ctx, ResourceOf(kind), namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	return facts.DecodeMachine(kind, u.Object)
}

// Drivers lists the NodeDrivers.
func (a *API) Drivers(ctx context.Context) ([]v3.NodeDriver, error) {
	drivers, err := list(ctx, a, nodeDrivers, ListOptions{}, decode[v3.NodeDriver])
	if isAbsent(err) {
		return nil, errors.New("this cluster has no NodeDriver kind: Drover is not installed here, or the kubeconfig's context is another cluster's")
	}
	return drivers, err
}

// object gets an object of any kind; nil when it, or its kind, does not exist.
func (a *API) object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	u, err := a.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	return u, nil
}

// get gets an object of a fixed kind; nil when it does not exist.
func get[T any](ctx context.Context, a *API, resource schema.GroupVersionResource, namespace, name string) (*T, error) {
	u, err := a.object(ctx, resource, namespace, name)
	if u == nil || err != nil {
		return nil, err
	}
	object, err := decode[T](u)
	return &object, err
}

// list lists objects, page by page, each as read makes it.
func list[T any](ctx context.Context, a *API, resource schema.GroupVersionResource, o ListOptions,
	read func(*unstructured.Unstructured) (T, error)) ([]T, error) {
	var all []T
	selected := metav1.ListOptions{LabelSelector: o.Selector}
	if o.name != "" {
		selected.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.name).String()
	}
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return a.Dynamic.Resource(resource).Namespace(o.Namespace).List(ctx, options)
	}
	err := pager.New(page).EachListItem(ctx, selected, func(object runtime.Object) error {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("unexpected %T", object)
		}
		one, err := read(u)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	return all, nil
}

func decode[T any](u *unstructured.Unstructured) (object T, err error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &object); err != nil {
		return object, fmt.Errorf("decoding %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return object, nil
}

// names of objects.
func (a *API) names(ctx context.Context, resource schema.GroupVersionResource, o ListOptions) ([]string, error) {
	return list(ctx, a, resource, o, func(u *unstructured.Unstructured) (string, error) { return u.GetName(), nil })
}

// isAbsent reports that an object, or its whole kind, is not there.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}
