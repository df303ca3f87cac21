package crdgen_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit/golden"
)

type given struct {
	name  string
	value any
}

// everyValue is each form in which a value can reach us, from YAML, JSON or Go.
func everyValue() []given {
	return []given{
		{"null", nil}, {"empty text", ""}, {"text", "marker"}, {"digits", "42"}, {"negative digits", "-42"}, {"padded digits", " 42"},
		{"signed digits", "+42"}, {"leading zeroes", "007"}, {"hexadecimal", "0x2a"}, {"fraction as text", "4.2"}, {"true as text", "true"},
		{"NUL", "mar\x00ker"}, {"several lines", "a\nb"}, {"true", true}, {"false", false}, {"int", 42}, {"int32", int32(-42)}, {"int64", int64(42)},
		{"zero", int64(0)}, {"whole float", 42.0}, {"fraction", 4.2}, {"large float", 1e300}, {"no number", math.NaN()}, {"infinity", math.Inf(1)},
		{"json number", json.Number("42")}, {"json fraction", json.Number("4.2")}, {"largest", int64(math.MaxInt64)}, {"list", []any{"a", "b"}},
		{"list of text", []string{"a", "b"}}, {"empty list", []any{}}, {"mixed list", []any{"a", int64(1)}}, {"list with null", []any{"a", nil}},
		{"list with NUL", []any{"a", "mar\x00ker"}}, {"list of lists", []any{[]any{"a"}}}, {"map", map[string]any{"a": "marker"}},
	}
}

// What a field of each type makes of each value: golden, because every cell is something a user wrote.
func TestOptionsOfEveryTypeAndValue(t *testing.T) {
	var out strings.Builder
	for _, kind := range []crdgen.FlagType{crdgen.String, crdgen.Int, crdgen.Bool, crdgen.StringSlice} {
		fmt.Fprintf(&out, "%s\n", kind)
		for _, v := range everyValue() {
			values, files, err := crdgen.Options([]crdgen.Field{{Name: "x", Flag: "acme-x", Type: kind}}, map[string]any{"x": v.value})
			require.Empty(t, files)
			got := fmt.Sprintf("%#v", values["acme-x"])
			if err != nil {
				require.Nil(t, values)
				require.NotContains(t, err.Error(), "marker", "an error never repeats a value")
				got = "error: " + err.Error()
			} else if len(values) == 0 {
				got = "left to the driver"
			}
			fmt.Fprintf(&out, "  %-17s %s\n", v.name, got)
		}
	}
	golden.Require(t, "testdata/options.golden", out.String())
}

// A file's content reaches the driver whole, with the line break that OpenSSH wants.
func TestFilesAreContent(t *testing.T) {
	for content, want := range map[string]string{"KEY": "KEY\n", "KEY\n": "KEY\n", "KEY\n\n": "KEY\n\n", "KEY\r\n": "KEY\r\n", " ": " \n", "a\nb": "a\nb\n"} {
		values, files, err := crdgen.Options(acmeFields(), map[string]any{"sshKeyContents": content})
		require.NoError(t, err)
		require.Empty(t, values)
		require.Equal(t, map[string][]byte{"acme-ssh-key-path": []byte(want)}, files)
	}
}

// The driver's options are its own: changing them changes neither the object nor what the next one gets.
func TestOptionsAreCopies(t *testing.T) {
	spec := map[string]any{"tags": []string{"a", "b"}, "sshKeyContents": "KEY\n"}
	values, files, err := crdgen.Options(acmeFields(), spec)
	require.NoError(t, err)
	values["acme-tags"].([]string)[0] = "changed"
	files["acme-ssh-key-path"][0] = 'X'
	require.Equal(t, map[string]any{"tags": []string{"a", "b"}, "sshKeyContents": "KEY\n"}, spec)
}

func TestChangesOfEveryKind(t *testing.T) {
	base := crdgen.Field{Name: "x", Flag: "acme-x", Type: crdgen.String}
	with := func(change func(*crdgen.Field)) []crdgen.Field {
		field := base
		change(&field)
		return []crdgen.Field{field}
	}
	for name, tt := range map[string]struct {
		next []crdgen.Field
		want []crdgen.Change
	}{
		"nothing":         {next: []crdgen.Field{base}},
		"another flag":    {next: with(func(f *crdgen.Field) { f.Flag = "acme-y" })},
		"another default": {next: with(func(f *crdgen.Field) { f.Default = "d" })},
		"now secret":      {next: with(func(f *crdgen.Field) { f.Secret = true })},
		"now credential":  {next: with(func(f *crdgen.Field) { f.Credential = crdgen.PublicCredential })},
		"more fields":     {next: []crdgen.Field{{Name: "a", Flag: "acme-a", Type: crdgen.Int}, base}},
		"gone":            {want: []crdgen.Change{{"x", "x (string) is dropped"}}},
		"renamed": {next: with(func(f *crdgen.Field) { f.Name = "X" }),
			want: []crdgen.Change{{"x", "x (string) is dropped"}}},
		"now a list": {next: with(func(f *crdgen.Field) { f.Type = crdgen.StringSlice }),
			want: []crdgen.Change{{"x", "x is retyped from string to stringSlice"}}},
		"now a file": {next: with(func(f *crdgen.Field) { f.File = true }),
			want: []crdgen.Change{{"x", "x is reinterpreted from path to content"}}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, crdgen.Incompatible([]crdgen.Field{base}, tt.next))
		})
	}
	changes := crdgen.Incompatible([]crdgen.Field{{Name: "z"}, {Name: "a"}}, nil)
	require.Equal(t, []string{"a", "z"}, []string{changes[0].Field, changes[1].Field})
}

// Drivers may be named after each other: no two kinds share a name, a plural or a short name.
func TestKindsOfDriversNeverCollide(t *testing.T) {
	names := []string{"pod", "podm", "podmt", "podc", "podmachine", "podmachinetemplate", "podconfig", "pods", "machine", "config", "machinetemplate",
		"my-cloud", "mycloud", "my", "m", "a1", "status", "kind", "oci", "news", "series", "sheep", "data", "criteria"}
	seen := map[string]string{}
	for _, name := range names {
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name})
		require.NoError(t, err)
		for _, crd := range []any{config, template, machine} {
			requireValid(t, asCRD(t, crd))
			n := asCRD(t, crd).Spec.Names
			for _, word := range slices.Concat([]string{n.Plural, n.Singular, n.Kind, n.ListKind}, n.ShortNames) {
				require.Empty(t, seen[word], "%s is of %s already", word, seen[word])
				seen[word] = name
			}
		}
		require.Equal(t, machine.Name, crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(name).Machine))
	}
	require.Equal(t, crdgen.Kinds{}, crdgen.KindsOf(""))
	require.Len(t, slices.Collect(maps.Keys(seen)), len(names)*12+3*(len(names)-3), "three drivers have names too short for short names")
}

func TestIsDefault(t *testing.T) {
	for _, tt := range []struct {
		field crdgen.Field
		value any
		want  bool
	}{
		{crdgen.Field{Type: crdgen.String, Default: "s"}, "s", true},
		{crdgen.Field{Type: crdgen.String, Default: "s"}, "t", false},
		{crdgen.Field{Type: crdgen.String}, "", false},
		{crdgen.Field{Type: crdgen.Int, Default: int64(2)}, int64(2), true},
		{crdgen.Field{Type: crdgen.Int, Default: int64(2)}, "2", false},
		{crdgen.Field{Type: crdgen.Bool, Default: true}, true, true},
		{crdgen.Field{Type: crdgen.StringSlice, Default: []string{"a", "b"}}, []any{"a", "b"}, true},
		{crdgen.Field{Type: crdgen.String, Default: "s", Credential: crdgen.PublicCredential}, "s", false}, // has none in the schema
	} {
		require.Equal(t, tt.want, tt.field.IsDefault(tt.value), "%+v %v", tt.field, tt.value)
	}
}
