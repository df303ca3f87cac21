package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/provisioning/observe"
	"github.com/drover-project/drover/releases"
)

// Planning reads the objects that a plan is about, and asks the API server about changes by dry runs.
// It writes nothing.
type Planning struct {
	client.Client

	api      *API
	warnings *warnings
	// given are the Configs that a file has, by their keys.
	given map[client.ObjectKey]*unstructured.Unstructured
}

// warnings collects the warnings of an API server.
type warnings struct{ all []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.all = append(w.all, text) }

// NewPlanning connects; nothing is sent yet.
func NewPlanning(config *rest.Config, api *API) (*Planning, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{provv1.AddToScheme, rkev1.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making a client: %w", err)
		}
	}
	p := &Planning{api: api, warnings: &warnings{}, given: map[client.ObjectKey]*unstructured.Unstructured{}}
	config = rest.CopyConfig(config)
	config.WarningHandler = p.warnings
	var err error
	if p.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return p, nil
}

// Get implements client.Reader. It reads the Configs of a file from the file. Without the right to
// read CRDs, it reads the options of a driver from the API server's OpenAPI document, which each user
// may read.
func (p *Planning) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj := obj.(type) {
	case *unstructured.Unstructured:
		if given := p.given[configKey(obj.GetKind(), key)]; given != nil {
			given.DeepCopyInto(obj)
			return nil
		}
	case *apiextensionsv1.CustomResourceDefinition:
		err := p.Client.Get(ctx, key, obj, opts...)
		if apierrors.IsForbidden(err) {
			return p.api.definition(ctx, key.Name, obj)
		}
		return err
	}
	return p.Client.Get(ctx, key, obj, opts...)
}

// configKey tells Configs of two kinds apart.
func configKey(kind string, key client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: key.Namespace, Name: kind + "/" + key.Name}
}

// Cluster reads a provisioning Cluster; nil if it does not exist.
func (p *Planning) Cluster(ctx context.Context, key client.ObjectKey) (*provv1.Cluster, error) {
	cluster := &provv1.Cluster{}
	err := p.Get(ctx, key, cluster)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Cluster %s: %w", key, err)
	}
	return cluster, nil
}

// UsedBy returns the Clusters of a namespace with a pool that uses one of the given Configs.
func (p *Planning) UsedBy(ctx context.Context, namespace string) ([]*provv1.Cluster, error) {
	list := &provv1.ClusterList{}
	if err := p.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Clusters of namespace %s: %w", namespace, err)
	}
	var all []*provv1.Cluster
	for i := range list.Items {
		config := list.Items[i].Spec.RKEConfig
		if config != nil && slices.ContainsFunc(config.MachinePools, func(pool provv1.MachinePool) bool {
			return p.given[configKey(pool.MachineConfigRef.Kind, client.ObjectKey{Namespace: namespace, Name: pool.MachineConfigRef.Name})] != nil
		}) {
			all = append(all, &list.Items[i])
		}
	}
	return all, nil
}

// Give uses a Config from a file instead of the stored one. The API server fills in its defaults by a
// dry run or, if the user has no right to write it, this program does.
func (p *Planning) Give(ctx context.Context, config *unstructured.Unstructured) (forecast.Admission, error) {
	key := client.ObjectKeyFromObject(config)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(config.GroupVersionKind())
	err := p.Client.Get(ctx, key, stored)
	if isAbsent(err) {
		stored = nil
	} else if err != nil {
		return forecast.Admission{}, fmt.Errorf("reading the %s %s: %w", config.GetKind(), key, err)
	}
	result, admission, err := p.Try(ctx, stored, config)
	if err != nil {
		return admission, err
	}
	if !admission.Checked || admission.Rejected != "" {
		if result, err = p.defaulted(ctx, stored, result); err != nil {
			return admission, err
		}
	}
	p.given[configKey(config.GetKind(), key)] = result
	return admission, nil
}

// defaulted fills in the defaults of a Config, and its next generation.
func (p *Planning) defaulted(ctx context.Context, stored, config *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := p.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(crdgen.ConfigGroup, config.GetKind())}, crd); err != nil {
		return nil, fmt.Errorf("reading the options of kind %s: %w", config.GetKind(), err)
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if err != nil {
		return nil, err
	}
	for _, field := range fields {
		value := field.SchemaDefault()
		if value == nil || config.Object[field.Name] != nil {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding the default of %s: %w", field.Name, err)
		}
		var plain any
		if err := utiljson.Unmarshal(raw, &plain); err != nil {
			return nil, fmt.Errorf("encoding the default of %s: %w", field.Name, err)
		}
		config.Object[field.Name] = plain
	}
	if stored != nil {
		config.SetGeneration(stored.GetGeneration() + 1)
	}
	return config, nil
}

// Try returns the object that the API server would store, and its answer, by a dry run. If the
// user has no right to write the object, or the API server rejects it, the result is the object on
// top of the stored one.
func (p *Planning) Try(ctx context.Context, stored, object *unstructured.Unstructured) (*unstructured.Unstructured, forecast.Admission, error) {
	merged, verb := object.DeepCopy(), "create"
	if stored != nil {
		merged, verb = onTop(stored, object), "update"
	}
	mapping, err := p.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return nil, forecast.Admission{}, fmt.Errorf("the API server does not serve the kind %s (%s): register its driver, or install Drover: %w", object.GetKind(), object.GetAPIVersion(), err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: object.GetNamespace(), Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource, Name: object.GetName()}}}
	if err := p.Create(ctx, review); err != nil {
		return nil, forecast.Admission{}, fmt.Errorf("asking the API server whether you may %s the %s: %w", verb, object.GetKind(), err)
	}
	if !review.Status.Allowed {
		return merged, forecast.Admission{NotChecked: fmt.Sprintf("you lack the right to %s %s in namespace %s", verb, mapping.Resource.GroupResource(), object.GetNamespace())}, nil
	}
	p.warnings.all = nil
	strict, tried := client.WithFieldValidation(p.Client, metav1.FieldValidationStrict), merged.DeepCopy()
	if stored != nil {
		err = strict.Update(ctx, tried, client.DryRunAll)
	} else {
		err = strict.Create(ctx, tried, client.DryRunAll)
	}
	admission := forecast.Admission{Checked: true, Warnings: p.warnings.all}
	switch {
	case err == nil:
		return tried, admission, nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return nil, admission, fmt.Errorf("asking the API server about the %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	admission.Rejected = Plain(err)
	return merged, admission, nil
}

// onTop is the stored object with the content of another one, as a replacement of it would have.
func onTop(stored, object *unstructured.Unstructured) *unstructured.Unstructured {
	merged := stored.DeepCopy()
	for key := range stored.Object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, key) {
			delete(merged.Object, key)
		}
	}
	for key, value := range object.Object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, key) {
			merged.Object[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	merged.SetLabels(union(stored.GetLabels(), object.GetLabels()))
	merged.SetAnnotations(union(stored.GetAnnotations(), object.GetAnnotations()))
	return merged
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return all
}

// Sources reads the objects of a Cluster. wanted is the Cluster as it will be.
func (p *Planning) Sources(ctx context.Context, stored, wanted *provv1.Cluster) (forecast.Sources, error) {
	s := forecast.Sources{Stored: stored}
	var err error
	if s.Releases, err = releases.Default(); err != nil {
		return s, err
	}
	key := client.ObjectKeyFromObject(wanted)
	if s.CAPI, err = optional(ctx, p, key, &clusterv1.Cluster{}); err != nil {
		return s, err
	}
	s.Input.Cluster = wanted
	if wanted.Spec.RKEConfig == nil {
		return s, nil
	}
	if s.Input, err = (observe.Observer{Client: p}).Input(ctx, wanted, s.CAPI); err != nil || s.CAPI == nil {
		return s, err
	}
	if s.ControlPlane, err = optional(ctx, p, key, &rkev1.RKEControlPlane{}); err != nil {
		return s, err
	}
	machines := &clusterv1.MachineList{}
	if err := p.List(ctx, machines, client.InNamespace(wanted.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: wanted.Name}); err != nil {
		return s, fmt.Errorf("listing the Machines of Cluster %s: %w", key, err)
	}
	s.Machines = machines.Items
	return s, nil
}

// optional reads an object; nil if it does not exist.
func optional[T client.Object](ctx context.Context, p *Planning, key client.ObjectKey, obj T) (found T, err error) {
	err = p.Get(ctx, key, obj)
	if isAbsent(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// Approve sets the annotation that allows exactly the replacement of the ID.
func (p *Planning) Approve(ctx context.Context, cluster *provv1.Cluster, id string) error {
	changed := cluster.DeepCopy()
	changed.SetAnnotations(union(cluster.Annotations, map[string]string{provv1.ApproveReplacementAnnotation: id}))
	if err := p.Patch(ctx, changed, client.MergeFromWithOptions(cluster, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the annotation %s: %w", provv1.ApproveReplacementAnnotation, err)
	}
	return nil
}

// definition makes the CRD of a driver's kind from the OpenAPI document. An option with a default is
// no secret; each other option is taken to be one.
func (a *API) definition(ctx context.Context, name string, crd *apiextensionsv1.CustomResourceDefinition) error {
	_, group, _ := strings.Cut(name, ".")
	notFound := apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), name)
	raw, err := a.Kube.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/" + group + "/" + crdgen.Version).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return notFound
	}
	if err != nil {
		return fmt.Errorf("reading the options of drivers from the API server's OpenAPI document: %w", err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Kinds      []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
				Properties map[string]struct {
					Type        string          `json:"type"`
					IntOrString bool            `json:"x-kubernetes-int-or-string"`
					Default     json.RawMessage `json:"default"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("reading the API server's OpenAPI document: %w", err)
	}
	for _, schema := range document.Components.Schemas {
		if !slices.ContainsFunc(schema.Kinds, func(kind metav1.GroupVersionKind) bool {
			return kind.Group == group && crdgen.CRDName(kind.Group, kind.Kind) == name
		}) {
			continue
		}
		var fields []map[string]any
		for field, property := range schema.Properties {
			if property.IntOrString {
				property.Type = "integer"
			}
			if flag := flagTypes[property.Type]; flag != "" && len(property.Default) > 0 {
				fields = append(fields, map[string]any{"name": field, "flag": field, "type": flag, "default": property.Default})
			} else if flag != "" { // it may be a secret, and its value is not shown
				fields = append(fields, map[string]any{"name": field, "flag": field, "type": flag, "secret": true})
			}
		}
		table, err := json.Marshal(fields)
		if err != nil {
			return fmt.Errorf("encoding options: %w", err)
		}
		crd.Name, crd.Annotations = name, map[string]string{crdgen.FieldsAnnotation: string(table)}
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		return nil
	}
	return notFound
}

// flagTypes are the types of options by the types of their schemas.
var flagTypes = map[string]crdgen.FlagType{"string": crdgen.String, "integer": crdgen.Int, "boolean": crdgen.Bool, "array": crdgen.StringSlice}
