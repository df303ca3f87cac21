package provisioning

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// machineGroup is the group of machine templates.
var machineGroup = rkev1.MachineGroupVersion

// notOptions are the fields of a Config beside its driver's options. Labels, taints and the
// credential, which common holds, come from the pool.
var notOptions = []string{"apiVersion", "kind", "metadata", "status", rkev1.CommonField, rkev1.ProviderIDField}

// Options returns the driver's options of a Config, without empty values.
func Options(config *unstructured.Unstructured) map[string]any {
	options := map[string]any{}
	for key, value := range config.Object {
		if !slices.Contains(notOptions, key) && !isEmpty(value) {
			options[key] = runtime.DeepCopyJSONValue(value)
		}
	}
	return options
}

// isEmpty reports whether an option is as good as absent. False and 0 are values.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// machineTemplate renders the machine template of a pool: the one in use if it has the options of
// the Config, or else a new one.
func machineTemplate(cluster *provv1.Cluster, pool *provv1.MachinePool, in PoolInput) (*unstructured.Unstructured, error) {
	if in.Template != nil && in.Template.GetKind() == TemplateKind(in.Config.GetKind()) && (isFrom(in.Template, in.Config) || len(changedOptions(in)) == 0) {
		return noted(cluster, pool, in.Template.GetName(), templateOptions(in.Template), in.Config), nil
	}
	options := Options(in.Config)
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encoding the options of %s %s: %w", in.Config.GetKind(), in.Config.GetName(), err)
	}
	base := Name(cluster.Name, pool.Name)
	sum := sha256.Sum256(append([]byte(base), encoded...))
	return noted(cluster, pool, Name(base, hex.EncodeToString(sum[:4])), options, in.Config), nil
}

// isFrom reports whether a template was rendered from this generation of the Config.
func isFrom(template, config *unstructured.Unstructured) bool {
	noted := template.GetAnnotations()
	return noted[provv1.ConfigUIDAnnotation] == string(config.GetUID()) && config.GetUID() != "" &&
		noted[provv1.ConfigGenerationAnnotation] == strconv.FormatInt(config.GetGeneration(), 10)
}

// changedOptions are the names of the options that differ between a pool's template and its Config. An
// option that one of them lacks does not differ from its default.
func changedOptions(in PoolInput) []string {
	was, is := templateOptions(in.Template), Options(in.Config)
	var names []string
	for name, value := range is {
		earlier, had := was[name]
		if had && !isSame(in.Fields[name], earlier, value) || !had && !isDefault(in.Fields[name], value) {
			names = append(names, name)
		}
	}
	for name, earlier := range was {
		if _, has := is[name]; !has && !isDefault(in.Fields[name], earlier) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isSame reports whether two values of an option are the same for its driver: an integer may be a text.
func isSame(field crdgen.Field, a, b any) bool {
	if equality.Semantic.DeepEqual(a, b) {
		return true
	}
	one, err := field.Type.Value(a)
	other, otherErr := field.Type.Value(b)
	return err == nil && otherErr == nil && equality.Semantic.DeepEqual(one, other)
}

// isDefault reports whether a value is the one that the schema of the Config fills in, or else the one
// that the driver takes if the option is not set.
func isDefault(field crdgen.Field, value any) bool {
	for _, known := range []any{field.Preset, field.Default} {
		if known != nil {
			return fmt.Sprint(known) == fmt.Sprint(value)
		}
	}
	return field.Type == crdgen.Bool && value == false || field.Type == crdgen.Int && fmt.Sprint(value) == "0"
}

// templateOptions returns the driver's options of a template, without empty values.
func templateOptions(template *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	return Options(&unstructured.Unstructured{Object: spec})
}

// noted returns the template of this name, with the Config that it is from.
func noted(cluster *provv1.Cluster, pool *provv1.MachinePool, name string, options map[string]any, config *unstructured.Unstructured) *unstructured.Unstructured {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterName": cluster.Name,
		"template":    map[string]any{"spec": options},
	}}}
	template.SetGroupVersionKind(machineGroup.WithKind(TemplateKind(config.GetKind())))
	template.SetNamespace(cluster.Namespace)
	template.SetName(name)
	labels := labelsOf(cluster)
	labels[rkev1.MachinePoolLabel] = pool.Name
	template.SetLabels(labels)
	template.SetAnnotations(map[string]string{
		rkev1.ClonedFromGroupVersionAnnotation: rkev1.MachineConfigGroupVersion.String(),
		rkev1.ClonedFromKindAnnotation:         config.GetKind(),
		rkev1.ClonedFromNameAnnotation:         config.GetName(),
		provv1.ConfigUIDAnnotation:             string(config.GetUID()),
		provv1.ConfigGenerationAnnotation:      strconv.FormatInt(config.GetGeneration(), 10),
	})
	return template
}

// TemplateKind is the kind of the machine templates that a kind of Configs makes.
func TemplateKind(config string) string {
	return strings.TrimSuffix(config, "Config") + "MachineTemplate"
}
