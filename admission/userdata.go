package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

// checkUserData rejects options with which the driver would not pass the bootstrap data on: the
// first Job would fail. An object that Cluster API made, or that is moved or restored, is accepted
// with a warning: the machine's condition then names the option. An update is rejected only for
// options that the update sets.
func (h *MachineKinds) checkUserData(ctx context.Context, obj, old *unstructured.Unstructured) (problem, error) {
	found, err := nodeDriverOf(ctx, h.Cached, obj.GetKind())
	if err != nil || found == nil {
		return problem{}, err
	}
	driver, annotation := found.DriverName(), found.Annotations[v3.UserDataAnnotation]
	if annotation == "" && clouds.Of(driver).UserData.Flag == "" {
		return problem{}, nil // no option of such a driver conflicts
	}
	fields, err := h.fieldsOf(ctx, obj)
	if err != nil {
		return problem{}, err
	}
	way, err := userdata.Way(driver, annotation, fields)
	if err != nil {
		return problem{}, nil //nolint:nilerr // the NodeDriver's condition reports this
	}
	conflicts := conflictsOf(driver, way, fields, obj)
	if old != nil {
		before := conflictsOf(driver, way, fields, old)
		conflicts = slices.DeleteFunc(conflicts, func(text string) bool { return slices.Contains(before, text) })
	}
	if len(conflicts) == 0 {
		return problem{}, nil
	}
	hasServer, _, _ := unstructured.NestedString(obj.Object, "spec", crdgen.ProviderIDField)
	return problem{text: strings.Join(conflicts, "; "), waits: old == nil && (hasServer != "" || comesFromElsewhere(obj))}, nil
}

// fieldsOf reads the driver's fields from the annotation of the object's CRD: from the cache, and
// from the API server for a CRD that is not there yet. It returns none for a CRD that is not
// generated.
func (h *MachineKinds) fieldsOf(ctx context.Context, obj *unstructured.Unstructured) ([]crdgen.Field, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: crdgen.CRDName(obj.GroupVersionKind().Group, obj.GetKind())}
	err := h.Cached.Get(ctx, key, crd)
	if apierrors.IsNotFound(err) {
		err = h.Live.Get(ctx, key, crd)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CRD %s: %w", key.Name, err)
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if errors.Is(err, crdgen.ErrNoFields) {
		return nil, nil
	}
	return fields, err
}

// conflictsOf returns a sentence for each option of an object that conflicts with the bootstrap
// data. It names fields by their path.
func conflictsOf(driver string, way clouds.UserData, fields []crdgen.Field, obj *unstructured.Unstructured) []string {
	options, path := optionsOf(obj)
	values, files, err := crdgen.Options(fields, options)
	if err != nil {
		return nil // the schema rejects it
	}
	all := map[string]any{}
	for _, field := range fields {
		all[field.Flag] = field.Default
		if path == "" && values[field.Flag] != nil && field.IsDefault(options[field.Name]) {
			delete(values, field.Flag) // the API server writes defaults into a config
		}
	}
	maps.Copy(all, values)
	if !userdata.Passes(way, all) {
		return nil
	}
	name := func(flag string) string {
		if i := slices.IndexFunc(fields, func(field crdgen.Field) bool { return field.Flag == flag }); i >= 0 {
			return path + fields[i].Name
		}
		return "--" + flag
	}
	var out []string
	for _, c := range userdata.Conflicts(driver, way, values, files, name) {
		out = append(out, name(c.Flag)+": "+c.Why)
	}
	return out
}

// optionsOf returns the driver's options in an object, and the path to them with a dot at its end;
// none for a config.
func optionsOf(obj *unstructured.Unstructured) (options map[string]any, path string) {
	switch kind := obj.GetKind(); {
	case strings.HasSuffix(kind, "MachineTemplate"):
		options, _, _ = unstructured.NestedMap(obj.Object, "spec", "template", "spec")
		return options, "spec.template.spec."
	case strings.HasSuffix(kind, "Config"):
		options = maps.Clone(obj.Object)
		for _, own := range []string{"apiVersion", "kind", "metadata"} {
			delete(options, own)
		}
		return options, ""
	}
	options, _, _ = unstructured.NestedMap(obj.Object, "spec")
	return options, "spec."
}
