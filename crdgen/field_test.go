package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

func namesOf(fields []crdgen.Field) map[string]string {
	out := map[string]string{}
	for _, field := range fields {
		out[field.Flag] = field.Name
	}
	return out
}

func stringFlags(names ...string) []crdgen.Flag {
	var out []crdgen.Flag
	for _, name := range names {
		out = append(out, crdgen.Flag{Name: name, Type: crdgen.String})
	}
	return out
}

func TestFieldsAreNamedAsInRancher(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		flags  []string
		want   map[string]string
	}{
		"prefix is cut": {"acme", []string{"acme-ssh-key-path", "acme-ipv6"},
			map[string]string{"acme-ssh-key-path": "sshKeyPath", "acme-ipv6": "ipv6"}},
		"no prefix": {"acme", []string{"url", "other-token"},
			map[string]string{"url": "url", "other-token": "token"}},
		"another's prefix": {"odd", []string{"strange-region", "strange-mode", "region"},
			map[string]string{"strange-region": "strangeRegion", "strange-mode": "mode", "region": "region"}},
		"dashed driver": {"my-cloud", []string{"my-cloud-token"}, map[string]string{"my-cloud-token": "token"}},
		"digits and capitals": {"acme", []string{"acme-2nd-disk", "acme-VM-size", "acme-disk-2nd"},
			map[string]string{"acme-2nd-disk": "2ndDisk", "acme-VM-size": "vMSize", "acme-disk-2nd": "disk2nd"}},
		"same name twice": {"acme", []string{"url", "acme-url"}, map[string]string{"acme-url": "url"}},
		"a name of Kubernetes": {"acme", []string{"acme-kind", "acme-metadata", "acme-common", "acme-provider-iD"},
			map[string]string{"acme-kind": "acmeKind", "acme-metadata": "acmeMetadata", "acme-common": "acmeCommon", "acme-provider-iD": "acmeProviderID"}},
		"a name of Kubernetes in other capitals": {"acme", []string{"acme-provider-id", "acme-api-Version", "acme-KIND", "acme-apiversion"},
			map[string]string{"acme-provider-id": "acmeProviderId", "acme-api-Version": "acmeApiVersion", "acme-KIND": "acmeKIND", "acme-apiversion": "acmeApiversion"}},
		"two spellings": {"acme", []string{"acme-aB", "acme-a-b"}, map[string]string{"acme-a-b": "aB", "acme-aB": "acmeAB"}},
	} {
		t.Run(name, func(t *testing.T) {
			fields, err := crdgen.FieldsOf(test.driver, stringFlags(test.flags...), crdgen.Rules{})
			if name == "same name twice" {
				require.ErrorContains(t, err, `flags --acme-url and --url would both become the field "url"`)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, namesOf(fields))
		})
	}
	_, err := crdgen.FieldsOf("acme", stringFlags("kind"), crdgen.Rules{})
	require.ErrorContains(t, err, "another meaning")
}

func TestFieldNamesDoNotDependOnTheOrderOfFlags(t *testing.T) {
	one, err := crdgen.FieldsOf("acme", stringFlags("acme-aB", "acme-a-b", "x"), crdgen.Rules{})
	require.NoError(t, err)
	two, err := crdgen.FieldsOf("acme", stringFlags("x", "acme-a-b", "acme-aB"), crdgen.Rules{})
	require.NoError(t, err)
	require.Equal(t, namesOf(one), namesOf(two))
}

func TestRulesShapeFields(t *testing.T) {
	rules, err := crdgen.RulesFromAnnotations(map[string]string{
		v3.PublicCredentialFieldsAnnotation:   "user, port",
		v3.PrivateCredentialFieldsAnnotation:  "token",
		v3.OptionalCredentialFieldsAnnotation: "user",
		v3.PasswordFieldsAnnotation:           "rootPass",
		v3.DefaultsAnnotation:                 "port:443,zone:a1",
		v3.FileAliasesAnnotation:              "sshKeyContents:sshKeypath,cloudConfig:cloud-config",
	})
	require.NoError(t, err)
	flags := append(stringFlags("acme-user", "acme-token", "acme-root-pass", "acme-zone", "acme-ssh-key-path", "acme-cloud-config"),
		crdgen.Flag{Name: "acme-port", Type: crdgen.Int, Default: int64(80), EnvVar: "ACME_PORT,PORT", Usage: " the\n port "})
	flags[2].Default, flags[4].Default = "secret default", "/home/me/.ssh/id"
	fields, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err)
	require.Equal(t, []crdgen.Field{
		{Name: "user", Flag: "acme-user", Type: crdgen.String, Credential: crdgen.PublicCredential, Optional: true},
		{Name: "token", Flag: "acme-token", Type: crdgen.String, Credential: crdgen.PrivateCredential, Secret: true},
		{Name: "rootPass", Flag: "acme-root-pass", Type: crdgen.String, Secret: true},
		{Name: "zone", Flag: "acme-zone", Type: crdgen.String, Preset: "a1"},
		{Name: "sshKeyContents", Flag: "acme-ssh-key-path", Type: crdgen.String, Secret: true, File: true},
		{Name: "cloudConfig", Flag: "acme-cloud-config", Type: crdgen.String, File: true},
		{Name: "port", Flag: "acme-port", EnvVar: "ACME_PORT", Type: crdgen.Int, Default: int64(443), Usage: "the port", Credential: crdgen.PublicCredential},
	}, fields)
}

func mustRules(t *testing.T, annotations map[string]string) crdgen.Rules {
	t.Helper()
	rules, err := crdgen.RulesFromAnnotations(annotations)
	require.NoError(t, err)
	return rules
}

func TestWrongRulesAreReported(t *testing.T) {
	flags := append(stringFlags("acme-token", "acme-key-file"), crdgen.Flag{Name: "acme-port", Type: crdgen.Int})
	rules := crdgen.Rules{PrivateCredentialFields: []string{"token", "tokn"}, PasswordFields: []string{"pass"}, Defaults: []crdgen.Pair{{"zone", "x"}}}
	fields, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err)
	require.Equal(t, []string{
		`private credential field "tokn" matches no flag of the driver`,
		`password field "pass" matches no flag of the driver`,
		`default for field "zone" matches no flag of the driver`,
	}, crdgen.Unmatched("acme", fields, rules))
}

// Given a path, the google driver would try to parse the path as JSON.
func TestGoogleCredentialIsContentForTheDriverToo(t *testing.T) {
	for _, field := range builtinFields(t)["google"] {
		if field.Name == "authEncodedJson" {
			require.False(t, field.File)
			require.True(t, field.Secret)
			return
		}
	}
	t.Fatal("no such field")
}

func TestKindsAndNames(t *testing.T) {
	require.Equal(t, crdgen.Kinds{Config: "Amazonec2Config", MachineTemplate: "Amazonec2MachineTemplate", Machine: "Amazonec2Machine"}, crdgen.KindsOf("amazonec2"))
	for _, name := range []string{"", "Acme", "acme_cloud", "-acme", "acme-", "2cloud", "a.b", "averylongdrivernameaverylongdrivernameaverylongdr"} {
		_, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: name})
		require.Error(t, err, name)
	}
}

// TestFind_spelling: options that differ in the case of letters only are told apart by their spelling; another spelling means them all.
func TestFind_spelling(t *testing.T) {
	fields, err := crdgen.FieldsOf("acme", stringFlags("acme-region", "acme-Region", "acme-api-key", "other-api-key"), crdgen.Rules{})
	require.NoError(t, err)
	for name, want := range map[string][]string{
		"acme-region": {"acme-region"}, "acme-Region": {"acme-Region"}, "--acme-Region": {"acme-Region"}, "acmeRegion": {"acme-region"}, "Region": {"acme-Region"},
		"region": {"acme-Region"}, // which has this name, for names are given in the order of the flags' own
		"REGION": {"acme-region", "acme-Region"}, "api-key": {"acme-api-key"}, "other-api-key": {"other-api-key"}, "API_KEY": {"acme-api-key"}, "none": nil,
	} {
		var got []string
		for _, i := range crdgen.Find("acme", fields, name) {
			got = append(got, fields[i].Flag)
		}
		require.ElementsMatch(t, want, got, name)
	}
}
