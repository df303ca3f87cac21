package nodedriver

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/crdgen"
)

const (
	// pageSize bounds the memory that looking for users takes.
	pageSize = 500
	// namesShown is how many objects a message names.
	namesShown = 5
)

// users are objects of a driver's kinds, counted, the first ones by name.
type users struct {
	count int
	names []string
}

func (u *users) add(kind string, obj client.Object) {
	u.count++
	if len(u.names) < namesShown {
		u.names = append(u.names, kind+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
}

// String lists them.
func (u users) String() string {
	text := strings.Join(u.names, ", ")
	if more := u.count - len(u.names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// use says that they use something: it, which may be empty where the sentence has named it before.
func (u users) use(it string) string {
	if it != "" {
		it += " "
	}
	if u.count == 1 {
		return fmt.Sprintf("1 object uses %s(%s)", it, u)
	}
	return fmt.Sprintf("%d objects use %s(%s)", u.count, it, u)
}

// kindsOf lists the kinds, machines first: those are what costs money.
func kindsOf(driverName string) []schema.GroupVersionKind {
	kinds := crdgen.KindsOf(driverName)
	return []schema.GroupVersionKind{
		{Group: crdgen.MachineGroup, Version: crdgen.Version, Kind: kinds.Machine},
		{Group: crdgen.MachineGroup, Version: crdgen.Version, Kind: kinds.MachineTemplate},
		{Group: crdgen.ConfigGroup, Version: crdgen.Version, Kind: kinds.Config},
	}
}

// servedKinds are those that have a CRD. Asking for objects of another would make the client discover the API anew.
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

// crd reads the metadata of a kind's CRD; nil when there is none.
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

// users finds every object of a driver's kinds, live.
func (r *Reconciler) users(ctx context.Context, driverName string) (users, error) {
	var all users
	kinds, err := r.servedKinds(ctx, driverName)
	if err != nil {
		return users{}, err
	}
	for _, gvk := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.pages(ctx, list, func() {
			for i := range list.Items {
				all.add(gvk.Kind, &list.Items[i])
			}
		})
		if err != nil {
			return users{}, err
		}
	}
	return all, nil
}

// hasMachines reports whether there is a machine of a driver.
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
		return false, nil // nobody serves the kind yet, or any more
	}
	if err != nil {
		return false, fmt.Errorf("looking for a %s: %w", kind.Kind, err)
	}
	return len(list.Items) > 0, nil
}

// fieldUsers finds, for each field, the objects that give it a value. A default that the API server wrote into a config is none: nobody gave
// it, and nobody can take it out.
func (r *Reconciler) fieldUsers(ctx context.Context, driverName string, present []crdgen.Field) (map[string]*users, error) {
	kinds, err := r.servedKinds(ctx, driverName)
	if err != nil {
		return nil, err
	}
	byField := map[string]*users{}
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.pages(ctx, list, func() {
			for i := range list.Items {
				given := options(&list.Items[i])
				if gvk.Group == crdgen.ConfigGroup {
					for _, field := range present {
						if field.IsDefault(given[field.Name]) {
							delete(given, field.Name)
						}
					}
				}
				for field := range crdgen.FieldsInUse(given) {
					if byField[field] == nil {
						byField[field] = &users{}
					}
					byField[field].add(gvk.Kind, &list.Items[i])
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return byField, nil
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

// options are the part of an object that the driver's flags became.
func options(obj *unstructured.Unstructured) map[string]any {
	path := []string{"spec"}
	switch {
	case obj.GroupVersionKind().Group == crdgen.ConfigGroup:
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
