package crdgen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/cluster-api/util/contract"

	"github.com/drover-project/drover/crdgen"
)

func asCRD(t *testing.T, value any) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, ok := value.(*apiextensionsv1.CustomResourceDefinition)
	require.True(t, ok)
	return crd
}

// flagsOf makes a flag of each line: a name, and a type after a space.
func flagsOf(lines string) []crdgen.Flag {
	var flags []crdgen.Flag
	for line := range strings.Lines(lines) {
		name, kind, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		flags = append(flags, crdgen.Flag{Name: name, Type: map[string]crdgen.FlagType{
			"i": crdgen.Int, "b": crdgen.Bool, "l": crdgen.StringSlice}[kind]})
		if last := &flags[len(flags)-1]; last.Type == "" {
			last.Type = crdgen.String
		}
	}
	return flags
}

// FuzzFlagsAndFields: whatever a driver calls its flags, each has one field, and what is written there reaches exactly that flag.
func FuzzFlagsAndFields(f *testing.F) {
	f.Add("acme", "acme-ssh-key-path\nacme-port i\nurl\nother-token\nacme-tags l\nacme-ipv6 b")
	f.Add("acme", "acme-aB\nacme-a-b\nacme-a.b")
	f.Add("my-cloud", "my-cloud-token\nmy-token\ncloud-token\ntoken")
	f.Add("a", "kind\na-kind\na-common\nacme-provider-iD")
	f.Add("acme", "../x\n-\n.\n_\n..")
	f.Fuzz(func(t *testing.T, driver, lines string) {
		flags := flagsOf(lines)
		fields, err := crdgen.FieldsOf(driver, flags, crdgen.Rules{})
		if err != nil {
			return
		}
		spec, want := map[string]any{}, map[string]any{}
		for i, field := range fields {
			require.Equal(t, flags[i].Name, field.Flag)
			require.NotContains(t, spec, field.Name, "one field for two flags")
			spec[field.Name], want[field.Flag] = valueOf(field.Type, i)
		}
		got, files, err := crdgen.Options(fields, spec)
		require.NoError(t, err)
		require.Empty(t, files)
		require.Equal(t, want, got)
	})
}

// valueOf is a value as a user writes it, and as the driver gets it.
func valueOf(kind crdgen.FlagType, i int) (written, given any) {
	switch kind {
	case crdgen.Int:
		return fmt.Sprint(i), i
	case crdgen.Bool:
		return true, true
	case crdgen.StringSlice:
		return []any{fmt.Sprint(i)}, []string{fmt.Sprint(i)}
	case crdgen.String:
	}
	return fmt.Sprintf("v%d", i), fmt.Sprintf("v%d", i)
}

// FuzzKindNames: a name that is accepted makes kinds that the API server and Cluster API accept, and leads back to the driver.
func FuzzKindNames(f *testing.F) {
	for _, name := range []string{"digitalocean", "a", "my-cloud", "x-machine", "machinetemplate", "9lives", "Ümlaut", "-", "a--b", "status", "kubernetes",
		strings.Repeat("a", 44), strings.Repeat("a", 45)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kinds := crdgen.KindsOf(name)
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: []crdgen.Field{{Name: "x", Flag: "x", Type: crdgen.Int}}})
		if err != nil {
			require.Error(t, crdgen.CheckDriverName(name))
			return
		}
		for kind, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{kinds.Config: config, kinds.MachineTemplate: template, kinds.Machine: machine} {
			requireValid(t, crd)
			require.Equal(t, kind, crd.Spec.Names.Kind)
			require.Equal(t, contract.CalculateCRDName(crd.Spec.Group, kind), crd.Name)
			require.Equal(t, crdgen.CRDName(crd.Spec.Group, kind), crd.Name)
		}
	})
}

// FuzzOptions: any object of a kind becomes options of the driver's own flags and types, or an error.
func FuzzOptions(f *testing.F) {
	f.Add([]byte(`{"region":"r","sshPort":"22","backups":true,"ipv6":false,"tags":["a"],"sshKeyContents":"K","common":{}}`))
	f.Add([]byte(`{"region":1,"sshPort":1e99,"tags":[null],"providerID":{}}`))
	f.Add([]byte(`{"sshPort":9223372036854775807}`))
	types := map[string]crdgen.FlagType{}
	for _, field := range acmeFields() {
		types[field.Flag] = field.Type
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var spec map[string]any
		if json.Unmarshal(raw, &spec) != nil {
			return
		}
		values, files, err := crdgen.Options(acmeFields(), spec)
		if err != nil {
			return
		}
		for flag, value := range values {
			switch value.(type) {
			case string:
				require.Equal(t, crdgen.String, types[flag])
			case int:
				require.Equal(t, crdgen.Int, types[flag])
			case bool:
				require.Equal(t, crdgen.Bool, types[flag])
			case []string:
				require.Equal(t, crdgen.StringSlice, types[flag])
			default:
				t.Fatalf("%s has the type %T", flag, value)
			}
		}
		for flag, content := range files {
			require.Equal(t, "acme-ssh-key-path", flag)
			require.True(t, strings.HasSuffix(string(content), "\n"))
		}
	})
}
