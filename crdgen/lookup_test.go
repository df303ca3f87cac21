package crdgen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

// A Secret's keys in every spelling that Rancher, people and generators use, and which of two wins.
func TestKeysFindTheirFields(t *testing.T) {
	fields := []crdgen.Field{
		{Name: "accessKey", Flag: "acme-access-key", EnvVar: "CLOUD_KEY", Type: crdgen.String, Credential: crdgen.PublicCredential, Optional: true},
		{Name: "secretKey", Flag: "acme-secret-key", Type: crdgen.String, Credential: crdgen.PrivateCredential, Secret: true, Optional: true},
	}
	for key, want := range map[string]string{
		"accessKey": "CLOUD_KEY", "accesskey": "CLOUD_KEY", "ACCESS_KEY": "CLOUD_KEY", "access-key": "CLOUD_KEY", "access.key": "CLOUD_KEY",
		"acme-access-key": "CLOUD_KEY", "CLOUD_KEY": "CLOUD_KEY", "acmecredentialConfig-accessKey": "CLOUD_KEY", "othercredentialConfig-accessKey": "CLOUD_KEY",
		"secretKey": "ACME_SECRET_KEY", "acmecredentialConfig-secretKey": "ACME_SECRET_KEY", "ACME_SECRET_KEY": "ACME_SECRET_KEY",
		"cloud_key": "ACME_CLOUD_KEY", "accessKeys": "ACME_ACCESS_KEYS",
	} {
		env, err := crdgen.CredentialEnv("acme", fields, bytesOf(map[string]string{key: "v"}))
		require.NoError(t, err, key)
		require.Equal(t, map[string]string{want: "v"}, env, key)
	}
	for name, tt := range map[string]struct{ data, want map[string]string }{
		"exact before Rancher's form":      {map[string]string{"acmecredentialConfig-ACCESSKEY": "no", "accessKey": "yes"}, map[string]string{"CLOUD_KEY": "yes"}},
		"exact before another spelling":    {map[string]string{"ACCESS_KEY": "no", "accessKey": "yes", "access-key": "no"}, map[string]string{"CLOUD_KEY": "yes"}},
		"the first of two other spellings": {map[string]string{"access_key": "yes", "accesskey": "no"}, map[string]string{"CLOUD_KEY": "yes"}},
		"blank is nothing":                 {map[string]string{"accessKey": "\n"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := crdgen.CredentialEnv("acme", fields, bytesOf(tt.data))
			require.NoError(t, err)
			require.Equal(t, tt.want, env)
		})
	}
}

// A token that kubectl read from a file, a key of several lines, and what no environment can hold.
func TestValuesOfCredentials(t *testing.T) {
	fields := []crdgen.Field{{Name: "token", Flag: "acme-token", EnvVar: "T", Type: crdgen.String, Credential: crdgen.PrivateCredential}}
	for value, want := range map[string]string{
		"t": "t", "t\n": "t", "t\r\n": "t", "t\n\n\n": "t", " t ": " t ", "a\nb": "a\nb", "a\nb\n": "a\nb\n", "a\r\nb\r\n": "a\r\nb\r\n",
		"{\"a\":\n1}\n": "{\"a\":\n1}\n", "ünï": "ünï", "\xff": "\xff", "a=b": "a=b", "$(x)": "$(x)", strings.Repeat("x", 100_000): strings.Repeat("x", 100_000),
	} {
		env, err := crdgen.CredentialEnv("acme", fields, bytesOf(map[string]string{"token": value}))
		require.NoError(t, err, "%.20q", value)
		require.Equal(t, map[string]string{"T": want}, env)
	}
	for value, want := range map[string]string{
		"":        "key token is missing or empty: set token, or acmecredentialConfig-token, in the Secret",
		" \r\n\t": "key token is missing or empty: set token, or acmecredentialConfig-token, in the Secret",
		"a\x00b":  "key token: has a NUL character",
	} {
		_, err := crdgen.CredentialEnv("acme", fields, bytesOf(map[string]string{"token": value}))
		require.EqualError(t, err, "reading the credential of driver acme: "+want)
	}
}

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
		FileAliases: []crdgen.FileAlias{{Field: "keyContents", DriverField: "key"}}}
	flags := []crdgen.Flag{
		{Name: "acme-token", Type: crdgen.String, Usage: "The\ttoken\r\n"}, {Name: "acme-user", Type: crdgen.String, Default: "root"},
		{Name: "acme-pass", Type: crdgen.String, Default: "hidden", Usage: "A password"}, {Name: "acme-key", Type: crdgen.String, Default: "/hidden"},
		{Name: "acme-port", Type: crdgen.Int, Default: int64(22), Usage: "Port"}, {Name: "acme-list", Type: crdgen.StringSlice, Default: []string{"a", "b"}},
		{Name: "acme-flag", Type: crdgen.Bool},
	}
	fields, err := crdgen.FieldsOf("acme", flags, rules)
	require.NoError(t, err)
	config, _, _, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: fields})
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
	require.NotContains(t, string(encode(t, config)), "hidden")
}
