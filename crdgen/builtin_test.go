package crdgen_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit/golden"
)

// flagCounts are the numbers of flags of rancher/machine's drivers on Linux (rancher-provv2.md §10.1).
var flagCounts = map[string]int{
	"amazonec2": 39, "azure": 33, "digitalocean": 14, "exoscale": 12, "generic": 5, "google": 22, "hyperv": 8, "none": 1,
	"noop": 1, "openstack": 45, "pod": 2, "rackspace": 10, "softlayer": 16, "virtualbox": 16, "vmwarefusion": 0,
	"vmwarevcloudair": 13, "vmwarevsphere": 33,
}

// builtinFields returns the fields of every built-in driver under the rules it is predefined with.
func builtinFields(t *testing.T) map[string][]crdgen.Field {
	t.Helper()
	out := map[string][]crdgen.Field{}
	for _, nd := range driver.Predefined() {
		if !nd.Spec.Builtin {
			continue
		}
		flags, ok := driver.Builtin(nd.DriverName())
		require.True(t, ok, nd.Name)
		rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
		require.NoError(t, err, nd.Name)
		fields, err := crdgen.FieldsOf(nd.DriverName(), flags, rules)
		require.NoError(t, err, nd.Name)
		require.Empty(t, crdgen.Unmatched(nd.DriverName(), fields, rules), nd.Name)
		out[nd.DriverName()] = fields
	}
	return out
}

func TestBuiltinDriversKeepEveryFlag(t *testing.T) {
	all := builtinFields(t)
	require.Equal(t, slices.Sorted(maps.Keys(flagCounts)), slices.Sorted(maps.Keys(all)))
	for name, fields := range all {
		flags, _ := driver.Builtin(name)
		require.Len(t, flags, flagCounts[name], name)
		require.Len(t, fields, flagCounts[name], name)

		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
		require.NoError(t, err)
		// apiVersion, kind and metadata; common and providerID, which Rancher's VmwarevsphereConfig has too.
		want := flagCounts[name] + 3
		if clouds.Of(name).ConfigHasCommon {
			want += 2
		}
		require.Len(t, rootProperties(config), want, name)
		require.Len(t, rootProperties(machine)["spec"].Properties, flagCounts[name]+2, name)
		require.Len(t, rootProperties(template)["spec"].Properties["template"].Properties["spec"].Properties, flagCounts[name]+2, name)
	}
}

// A spec that gives every field a value must come out as exactly the driver's flags, with the right Go types.
func TestBuiltinDriversRoundTrip(t *testing.T) {
	values := map[crdgen.FlagType]any{
		crdgen.String: "x", crdgen.Int: "7", crdgen.Bool: true, crdgen.StringSlice: []any{"a", "b"},
	}
	typed := map[crdgen.FlagType]any{
		crdgen.String: "x", crdgen.Int: 7, crdgen.Bool: true, crdgen.StringSlice: []string{"a", "b"},
	}
	for name, fields := range builtinFields(t) {
		spec, want := map[string]any{"common": map[string]any{"labels": map[string]any{}}, "providerID": "x://1"}, map[string]any{}
		wantFiles := map[string][]byte{}
		flags, _ := driver.Builtin(name)
		for i, flag := range flags {
			spec[fields[i].Name] = values[flag.Type]
			if fields[i].File {
				wantFiles[flag.Name] = []byte("x\n")
				continue
			}
			want[flag.Name] = typed[flag.Type]
		}
		got, files, err := crdgen.Options(fields, spec)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		require.Equal(t, wantFiles, files, name)
	}
}

func TestBuiltinCRDsAreGolden(t *testing.T) {
	for name, fields := range builtinFields(t) {
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
		require.NoError(t, err)
		for file, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{
			"config": config, "machinetemplate": template, "machine": machine,
		} {
			require.Equal(t, contract.CalculateCRDName(crd.Spec.Group, crd.Spec.Names.Kind), crd.Name)
			manifest, err := manifestOf(crd)
			require.NoError(t, err)
			got, err := yaml.Marshal(manifest)
			require.NoError(t, err)
			golden.Require(t, filepath.Join("testdata", "crds", name, file+".yaml"), string(got))
			carried, err := crdgen.FieldsFromCRD(crd)
			require.NoError(t, err)
			require.Equal(t, withoutUsage(fields), carried, name)
		}
	}
}

func rootProperties(crd *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
}
