package provisioning_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/testkit/golden"
)

const marker = "<!-- The rest is written by: go test ./provisioning -run TestReference -update -->\n"

// TestReference keeps docs/kinds/cluster-fields.md equal to the CRD, and its marks of fields without
// an effect equal to the list of NotActedOn.
func TestReference(t *testing.T) {
	file := filepath.Join("..", "docs", "kinds", "cluster-fields.md")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(raw), marker)
	require.True(t, found, "%s lacks its marker", file)

	raw, err = os.ReadFile(filepath.Join("..", "charts", "drover", "crds", "provisioning.cattle.io_clusters.yaml"))
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(raw, crd))
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
	page := &reference{unused: map[string]string{}}
	for path, where := range provisioning.WithoutEffect() {
		page.unused["spec."+path] = where
	}
	for _, part := range []string{"spec", "status"} {
		page.object(part, root[part])
	}
	require.Empty(t, page.unused, "NotActedOn names fields that the CRD lacks")
	golden.Require(t, file, before+marker+page.out.String())
}

// TestFromRancher: docs/from-rancher.md has a cause for each field without an effect, and for no other.
func TestFromRancher(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "docs", "from-rancher.md"))
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(raw), "\n## Fields\n")
	_, table, _ = strings.Cut(table, "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var shown []string
	for row := range strings.Lines(table) {
		fields, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for field := range strings.SplitSeq(fields, ", ") {
			shown = append(shown, strings.Trim(field, "`"))
		}
	}
	var fields []string
	for path, where := range provisioning.WithoutEffect() {
		if where == "" {
			fields = append(fields, strings.TrimPrefix(strings.TrimPrefix(path, "rkeConfig."), "machinePools[]."))
		}
	}
	require.ElementsMatch(t, fields, shown)
}

// reference writes the fields of a schema.
type reference struct {
	out strings.Builder
	// unused are the fields without an effect that are not written yet.
	unused map[string]string
}

// object writes the fields of an object, and then each object below it.
func (r *reference) object(path string, schema apiextensionsv1.JSONSchemaProps) {
	fmt.Fprintf(&r.out, "\n## %s\n\n| field | type | default and limits | meaning |\n|---|---|---|---|\n", path)
	below := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		at := path + "." + name
		shown, mark := "`"+name+"`", r.mark(at)
		child, suffix := elements(field)
		if len(child.Properties) > 0 && mark != noEffect {
			shown = fmt.Sprintf("[%s](#%s)", shown, strings.ToLower(strings.NewReplacer(".", "", "[", "", "]", "").Replace(at+suffix)))
			below[at+suffix] = child
		}
		fmt.Fprintf(&r.out, "| %s | %s | %s | %s |\n", shown, typeOf(field), limits(field, slices.Contains(schema.Required, name)), cell(mark+meaning(field)))
	}
	if rules := rulesOf(schema); len(rules) > 0 {
		fmt.Fprintf(&r.out, "\nRules:\n\n- %s\n", strings.Join(rules, "\n- "))
	}
	for _, at := range slices.Sorted(maps.Keys(below)) {
		r.object(at, below[at])
	}
}

const noEffect = "**No effect today.** "

// mark returns the mark of a field that has no effect.
func (r *reference) mark(path string) string {
	where, found := r.unused[path]
	delete(r.unused, path)
	switch {
	case !found:
		return ""
	case where != "":
		return "**No effect " + where + ".** "
	}
	return noEffect
}

// elements returns the schema of the elements of a list or map, and the end of their path; of another
// field, the field.
func elements(field apiextensionsv1.JSONSchemaProps) (apiextensionsv1.JSONSchemaProps, string) {
	switch {
	case field.Items != nil:
		child, suffix := elements(*field.Items.Schema)
		return child, "[]" + suffix
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		child, suffix := elements(*field.AdditionalProperties.Schema)
		return child, ".KEY" + suffix
	}
	return field, ""
}

func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.XIntOrString:
		return "integer or string"
	case field.Items != nil:
		return "list of " + typeOf(*field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*field.AdditionalProperties.Schema)
	case field.Type == "":
		return "any"
	}
	return field.Type
}

// limits describes the default of a field and the values that it may have.
func limits(field apiextensionsv1.JSONSchemaProps, required bool) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if required {
		add("required")
	}
	if field.Default != nil {
		add("default %s", field.Default.Raw)
	}
	if field.Minimum != nil {
		add("at least %v", *field.Minimum)
	}
	if field.Maximum != nil {
		add("at most %v", *field.Maximum)
	}
	if field.MinLength != nil {
		add("length at least %d", *field.MinLength)
	}
	if most := cmp.Or(field.MaxLength, field.MaxItems, field.MaxProperties); most != nil { // a type has one of them
		add("at most %d %s", *most, map[*int64]string{field.MaxLength: "characters", field.MaxItems: "items", field.MaxProperties: "keys"}[most])
	}
	var values []string
	for _, value := range field.Enum {
		if text := strings.Trim(string(value.Raw), `"`); text != "" {
			values = append(values, "`"+text+"`")
		}
	}
	if len(values) > 0 {
		add("%s", strings.Join(values, ", "))
	}
	if field.Pattern != "" {
		add("`%s`", field.Pattern)
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), "|", `\|`)
}

// meaning returns the help text of a field with the rules of its value.
func meaning(field apiextensionsv1.JSONSchemaProps) string {
	text := field.Description
	if child, _ := elements(field); len(child.Properties) > 0 {
		return text // the object's own section has the rules
	}
	for _, rule := range rulesOf(field) {
		text += " Rule: " + rule + "."
	}
	return text
}

func rulesOf(field apiextensionsv1.JSONSchemaProps) []string {
	var rules []string
	for _, rule := range field.XValidations {
		if text := html(rule.Message); !slices.Contains(rules, text) {
			rules = append(rules, text)
		}
	}
	return rules
}

// cell returns a text as the content of a table's cell.
func cell(text string) string {
	return html(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`))
}

func html(text string) string { return strings.ReplaceAll(text, "<", "&lt;") }
