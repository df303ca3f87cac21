package crdgen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

func TestRulesFromAnnotations(t *testing.T) {
	require.Equal(t, crdgen.Rules{}, mustRules(t, nil))
	rules := mustRules(t, map[string]string{
		v3.PublicCredentialFieldsAnnotation: " a ,, b,",
		v3.DefaultsAnnotation:               "endpoint:https://x:443/, zone : a1",
		v3.UIFieldHintsAnnotation:           "{not read",
	})
	require.Equal(t, crdgen.Rules{
		PublicCredentialFields: []string{"a", "b"},
		Defaults:               []crdgen.Pair{{"endpoint", "https://x:443/"}, {"zone", "a1"}},
	}, rules)
	for _, annotation := range []string{v3.DefaultsAnnotation, v3.FileAliasesAnnotation} {
		for _, bad := range []string{"x", "x:", ":x", " : ", "a:b,c"} {
			_, err := crdgen.RulesFromAnnotations(map[string]string{annotation: bad})
			require.ErrorContains(t, err, annotation)
			require.ErrorContains(t, err, "is not of the form field:value")
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("a, b", "zone:x,endpoint:https://y:1", "key:keyPath")
	f.Add(",", ":", "a:b:c")
	f.Fuzz(func(t *testing.T, list, defaults, aliases string) {
		rules, err := crdgen.RulesFromAnnotations(map[string]string{v3.PrivateCredentialFieldsAnnotation: list,
			v3.DefaultsAnnotation: defaults, v3.FileAliasesAnnotation: aliases})
		if err != nil {
			return
		}
		var pairs, names []string
		for _, d := range rules.Defaults {
			pairs = append(pairs, d.Field+":"+d.Value)
		}
		for _, a := range rules.FileAliases {
			names = append(names, a.Field+":"+a.Value)
		}
		require.Equal(t, rules, mustRules(t, map[string]string{v3.PrivateCredentialFieldsAnnotation: strings.Join(rules.PrivateCredentialFields, ","),
			v3.DefaultsAnnotation: strings.Join(pairs, ","), v3.FileAliasesAnnotation: strings.Join(names, ",")}))
	})
}

func TestDefaultsTakeTheTypeOfTheFlag(t *testing.T) {
	flags := []crdgen.Flag{{Name: "acme-s", Type: crdgen.String}, {Name: "acme-i", Type: crdgen.Int}, {Name: "acme-b", Type: crdgen.Bool}, {Name: "acme-l", Type: crdgen.StringSlice}}
	for name, tt := range map[string]struct {
		field, value, wantErr string
		want                  any
	}{
		"string":         {field: "s", value: "x", want: "x"},
		"integer":        {field: "i", value: "-5", want: int64(-5)},
		"zero is none":   {field: "i", value: "0"},
		"boolean":        {field: "b", value: "true", want: true},
		"false is none":  {field: "b", value: "false"}, // the driver's default is false, too
		"list":           {field: "l", value: "x", want: []string{"x"}},
		"any spelling":   {field: "ACME-S", value: "x", want: "x"},
		"no integer":     {field: "i", value: "5m", wantErr: `default of field i: "5m" must be an integer`},
		"no boolean":     {field: "b", value: "yes", wantErr: `"yes" must be true or false`},
		"too large":      {field: "i", value: "99999999999999999999", wantErr: "must be an integer"},
		"much too long":  {field: "s", value: strings.Repeat("x", 5000), wantErr: "5000 bytes"},
		"no such option": {field: "none", value: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			fields, err := crdgen.FieldsOf("acme", flags, crdgen.Rules{Defaults: []crdgen.Pair{{tt.field, tt.value}}})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				require.ErrorContains(t, err, "driver acme")
				return
			}
			require.NoError(t, err)
			var got any
			for _, field := range fields {
				require.Nil(t, field.Default, "a machine has what the driver does")
				if field.Preset != nil {
					got = field.Preset
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestPresets: what a NodeDriver's annotation gives is written into a Config, is there again when the kinds are read back, and is nothing that a machine has.
func TestPresets(t *testing.T) {
	flags := []crdgen.Flag{{Name: "acme-s", Type: crdgen.String, Default: "own"}, {Name: "acme-b", Type: crdgen.Bool, Default: true}, {Name: "acme-i", Type: crdgen.Int, Default: 22},
		{Name: "acme-l", Type: crdgen.StringSlice}, {Name: "acme-port", Type: crdgen.Int, Default: 443}}
	fields, err := crdgen.FieldsOf("acme", flags, mustRules(t, map[string]string{
		v3.DefaultsAnnotation: "s:theirs,b:false,i:0,l:x,port:8443", v3.PublicCredentialFieldsAnnotation: "port"}))
	require.NoError(t, err)
	config, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
	require.NoError(t, err)
	back, err := crdgen.FieldsFromCRD(machine)
	require.NoError(t, err)
	require.Equal(t, fields, back)
	written := map[string]string{}
	for name, property := range rootProperties(config) {
		if property.Default != nil {
			written[name] = string(property.Default.Raw)
		}
	}
	require.Equal(t, map[string]string{"s": `"theirs"`, "b": "false", "i": "0", "l": `["x"]`}, written)
	of := machine.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	require.Equal(t, "Default: own. A Config that does not say it has theirs, from the NodeDriver. Driver flag --acme-s.", of["s"].Description)
	require.Equal(t, "Default: theirs. Driver flag --acme-s.", rootProperties(config)["s"].Description)
	require.Contains(t, of["port"].Description, "Default: 8443.", "the credential has it, too")
	values, _, err := crdgen.Options(fields, map[string]any{"b": false, "i": int64(0)})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"acme-b": false, "acme-i": 0}, values)
}
