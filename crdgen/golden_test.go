package crdgen_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit/golden"
)

// describe is one line with all that is known of a field but its help text.
func describe(field crdgen.Field) string {
	marks := []string{field.Name, "--" + field.Flag, string(field.Type)}
	for mark, set := range map[string]bool{"secret": field.Secret, "file": field.File, "optional": field.Optional} {
		if set {
			marks = append(marks, mark)
		}
	}
	slices.Sort(marks[3:])
	if field.EnvVar != "" {
		marks = append(marks, "$"+field.EnvVar)
	}
	if field.Credential != "" {
		marks = append(marks, string(field.Credential)+"-credential")
	}
	if field.Default != nil {
		marks = append(marks, fmt.Sprintf("= %v", field.Default))
	}
	if field.Preset != nil {
		marks = append(marks, fmt.Sprintf("config = %v", field.Preset))
	}
	return strings.Join(marks, " ")
}

// What users write for each built-in driver: nothing of it may change by accident, for their manifests would break.
func TestBuiltinFieldsAreGolden(t *testing.T) {
	var out strings.Builder
	all := builtinFields(t)
	for _, driver := range slices.Sorted(maps.Keys(all)) {
		kinds := crdgen.KindsOf(driver)
		fmt.Fprintf(&out, "%s: %s %s %s\n", driver, kinds.Config, kinds.MachineTemplate, kinds.Machine)
		for _, field := range all[driver] {
			fmt.Fprintln(&out, "  "+describe(field))
		}
	}
	golden.Require(t, "testdata/fields.golden", out.String())
}

// The kinds are made from values that many callers share: nothing they give is changed.
func TestMakingKindsChangesNoInput(t *testing.T) {
	flags := []crdgen.Flag{
		{Name: "acme-list", Type: crdgen.StringSlice, Default: []string{"a"}}, {Name: "acme-key", Type: crdgen.String, Default: "/x"},
		{Name: "acme-count", Type: crdgen.Int, Default: 3}, {Name: "acme-token", Type: crdgen.String, Usage: " a\nb "},
	}
	before := slices.Clone(flags)
	rules := crdgen.Rules{PrivateCredentialFields: []string{"token"}, Defaults: []crdgen.Pair{{Field: "count", Value: "4"}},
		FileAliases: []crdgen.Pair{{Field: "keyContents", Value: "key"}}}
	want, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err)
	require.Equal(t, before, flags)
	_, _, _, err = crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: want})
	require.NoError(t, err)
	require.Equal(t, before, flags)
}
