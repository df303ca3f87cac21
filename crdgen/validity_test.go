package crdgen_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// requireValid runs the checks the API server runs on creation.
func requireValid(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	defaulted := crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(defaulted)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&defaulted.Spec)
	var internal apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, &internal, nil))
	require.Empty(t, validation.ValidateCustomResourceDefinition(context.Background(), &internal), crd.Name)
}

// checker validates objects the way the API server does: defaults, then schema, then rules.
type checker struct {
	t          *testing.T
	structural *schema.Structural
	validator  schemavalidation.SchemaValidator
	rules      *cel.Validator
}

func newChecker(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) checker {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	require.NoError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil))
	structural, err := schema.NewStructural(&internal)
	require.NoError(t, err)
	validator, _, err := schemavalidation.NewSchemaValidator(&internal)
	require.NoError(t, err)
	return checker{t: t, structural: structural, validator: validator,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// check returns what is wrong with object as an update of old; old may be nil. Defaults are filled in.
func (c checker) check(object, old map[string]any) string {
	c.t.Helper()
	defaulting.PruneNonNullableNullsWithoutDefaults(object, c.structural)
	defaulting.Default(object, c.structural)
	errs := schemavalidation.ValidateCustomResource(nil, object, c.validator)
	var previous any
	if old != nil {
		previous = old
	}
	more, _ := c.rules.Validate(context.Background(), nil, c.structural, object, previous, celconfig.RuntimeCELCostBudget)
	if all := append(errs, more...).ToAggregate(); all != nil {
		return all.Error()
	}
	return ""
}

// A flag that takes a path or an address gets no path: the driver would read it in the Job's pod, where the credential lies.
func TestAddressesAreNoPaths(t *testing.T) {
	_, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "vmwarevsphere", Fields: builtinFields(t)["vmwarevsphere"]})
	require.NoError(t, err)
	for value, taken := range map[any]bool{
		nil: true, "": true, "https://example.com/x": true, "http://198.18.0.1:80/x?y=z": true,
		"/run/drover/request/request.json": false, "../x": false, "file:///x": false, "https://": false, "http:x": false, "https://x\n/y": false, " http://x": false,
	} {
		for _, field := range []string{"cloudinit", "boot2dockerUrl"} {
			spec := func() map[string]any { return map[string]any{"spec": map[string]any{field: value}} }
			for _, got := range []string{newChecker(t, machine).check(spec(), nil), newChecker(t, template).check(map[string]any{"spec": map[string]any{"template": spec()}}, nil)} {
				if taken {
					require.Empty(t, got, "%s %q", field, value)
					continue
				}
				require.Contains(t, got, field+": Invalid value", "%q", value)
			}
		}
	}
	// An external driver's own default may be a path; its kinds must be ones all the same.
	fields, err := crdgen.FieldsOf("acme", []crdgen.Flag{{Name: "acme-boot2docker-url", Type: crdgen.String, Default: "/images/x.iso"}}, crdgen.Rules{})
	require.NoError(t, err)
	config, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
	require.NoError(t, err)
	requireValid(t, config)
}

func TestDefaultsAreFilledInOnlyInConfigs(t *testing.T) {
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "vmwarevsphere", Fields: builtinFields(t)["vmwarevsphere"]})
	require.NoError(t, err)

	object := map[string]any{}
	require.Empty(t, newChecker(t, config).check(object, nil))
	require.EqualValues(t, 2, object["cpuCount"])
	require.NotContains(t, object, "vcenterPort", "a default would win over the credential")
	require.NotContains(t, object, "sshPassword")

	spec := map[string]any{}
	require.Empty(t, newChecker(t, machine).check(map[string]any{"spec": spec}, nil))
	require.Empty(t, spec)
	require.Empty(t, newChecker(t, template).check(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}, nil))
	require.Empty(t, spec)
}

// The schema of status and common is written by hand; this keeps it equal to the Go types.
func TestHandWrittenSchemaEqualsGoTypes(t *testing.T) {
	_, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "none"})
	require.NoError(t, err)
	root := rootProperties(machine)
	compareType(t, "status", reflect.TypeFor[rkev1.RKEMachineStatus](), root["status"])
	compareType(t, "common", reflect.TypeFor[rkev1.RKECommonNodeConfig](), root["spec"].Properties["common"])
}

func compareType(t *testing.T, path string, goType reflect.Type, property apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	switch goType.Kind() {
	case reflect.Pointer:
		compareType(t, path, goType.Elem(), property)
	case reflect.Slice:
		require.Equal(t, "array", property.Type, path)
		compareType(t, path+"[]", goType.Elem(), *property.Items.Schema)
	case reflect.Struct:
		if goType.Name() == "Time" {
			require.Equal(t, "date-time", property.Format, path)
			return
		}
		var names []string
		for field := range goType.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
			require.Contains(t, property.Properties, name, path)
			compareType(t, path+"."+name, field.Type, property.Properties[name])
		}
		for name := range property.Properties {
			require.True(t, slices.Contains(names, name), "%s.%s is in the schema but not in %s", path, name, goType)
		}
	case reflect.Map:
		require.NotNil(t, property.AdditionalProperties, path)
	case reflect.String:
		require.Equal(t, "string", property.Type, path)
	case reflect.Bool:
		require.Equal(t, "boolean", property.Type, path)
	case reflect.Int32, reflect.Int64:
		require.Equal(t, "integer", property.Type, path)
	default:
		t.Fatalf("%s has the unexpected Go type %s", path, goType)
	}
}
