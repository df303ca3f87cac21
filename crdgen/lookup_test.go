package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

// Names in annotations are matched loosely, but a name that could mean two flags means neither where one is needed.
func TestRulesFindTheirFlags(t *testing.T) {
	flags := stringFlags("acme-api-token", "acme-apiToken", "acme-zone", "other-zone-name", "region")
	for name, tt := range map[string]struct {
		rule string
		want []string
	}{
		"exact":          {"zone", []string{"zone"}},
		"as a flag":      {"acme-zone", []string{"zone"}},
		"in capitals":    {"ZONE", []string{"zone"}},
		"both spellings": {"api_token", []string{"apiToken", "acmeApiToken"}},
		"one exactly":    {"acmeApiToken", []string{"acmeApiToken"}},
		"foreign prefix": {"zone-name", []string{"zoneName"}},
		"no prefix":      {"Region", []string{"region"}},
		"nothing":        {"nothing", nil},
		"half a name":    {"zon", nil},
	} {
		t.Run(name, func(t *testing.T) {
			rules := crdgen.Rules{PasswordFields: []string{tt.rule}}
			fields, err := crdgen.FieldsOf("acme", flags, rules)
			require.NoError(t, err)
			var secret []string
			for _, field := range fields {
				if field.Secret {
					secret = append(secret, field.Name)
				}
			}
			require.ElementsMatch(t, tt.want, secret)
			require.Equal(t, len(tt.want) == 0, len(crdgen.Unmatched("acme", fields, rules)) == 1)
		})
	}
}

// Help texts are for people: whatever a driver wrote, they are one line, and tell what the field is.
func TestDescriptionsOfFields(t *testing.T) {
	rules := crdgen.Rules{PrivateCredentialFields: []string{"token"}, PublicCredentialFields: []string{"user"}, PasswordFields: []string{"pass"},
		FileAliases: []crdgen.Pair{{Field: "keyContents", Value: "key"}}}
	flags := []crdgen.Flag{
		{Name: "acme-token", Type: crdgen.String, Usage: "The\ttoken\r\n"}, {Name: "acme-user", Type: crdgen.String, Default: "root"},
		{Name: "acme-pass", Type: crdgen.String, Default: "hidden", Usage: "A password"}, {Name: "acme-key", Type: crdgen.String, Default: "/hidden"},
		{Name: "acme-port", Type: crdgen.Int, Default: int64(22), Usage: "Port"}, {Name: "acme-list", Type: crdgen.StringSlice, Default: []string{"a", "b"}},
		{Name: "acme-flag", Type: crdgen.Bool},
	}
	fields, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err)
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
	require.NoError(t, err)
	const usually = " of the credential Secret that common.cloudCredentialSecretName names; a value here wins."
	for name, want := range map[string]string{
		"token":       "The token\n\nUsually key token" + usually + " Driver flag --acme-token.",
		"user":        "Usually key user" + usually + " Default: root. Driver flag --acme-user.",
		"pass":        "A password\n\nSecret. Driver flag --acme-pass.",
		"keyContents": "Give the content, not a path: the driver gets it as a file. Driver flag --acme-key.",
		"port":        "Port\n\nAn integer, as a number or a string. Default: 22. Driver flag --acme-port.",
		"list":        "Default: a, b. Driver flag --acme-list.",
		"flag":        "Driver flag --acme-flag.",
	} {
		require.Equal(t, want, rootProperties(config)[name].Description, name)
	}
	for _, crd := range []any{config, template, machine} {
		require.NotContains(t, string(encode(t, crd)), "hidden", "a secret's default would be read by all who may read a schema")
	}
	require.Equal(t, "password", rootProperties(config)["token"].Format)
}
