package credential_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit/golden"
)

func TestEnvChoosesBetweenKeys(t *testing.T) {
	fields := []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String, Credential: crdgen.PrivateCredential}}
	for name, tt := range map[string]struct {
		data map[string]string
		want map[string]string
	}{
		"exact spelling wins":        {map[string]string{"Token": "wrong", "token": "right"}, map[string]string{"ACME_TOKEN": "right"}},
		"a made-up variable":         {map[string]string{"token": "t"}, map[string]string{"ACME_TOKEN": "t"}},
		"a flag beats an extra":      {map[string]string{"token": "t", "acme.token": "other"}, map[string]string{"ACME_TOKEN": "t"}},
		"dots and digits":            {map[string]string{"token": "t", "s3.endpointUrl2": "u"}, map[string]string{"ACME_TOKEN": "t", "ACME_S3_ENDPOINT_URL2": "u"}},
		"an empty extra is left out": {map[string]string{"token": "t", "extra": "\n"}, map[string]string{"ACME_TOKEN": "t"}},
		"no prefix twice":            {map[string]string{"token": "t", "ACME_REGION": "r"}, map[string]string{"ACME_TOKEN": "t", "ACME_REGION": "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := credential.Env("acme", fields, bytesOf(tt.data))
			require.NoError(t, err)
			require.Equal(t, tt.want, env)
		})
	}
}

func TestEnvTellsAllProblemsAtOnce(t *testing.T) {
	fields := []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String, Credential: crdgen.PrivateCredential}}
	_, err := credential.Env("acme", fields, bytesOf(map[string]string{"bad/key": "hidden", "ends-": "hidden", "nul": "hid\x00den"}))
	require.ErrorContains(t, err, "reading the credential of driver acme")
	require.ErrorContains(t, err, "key bad/key: cannot become an environment variable: use letters")
	require.ErrorContains(t, err, "key ends-: cannot become an environment variable: it ends with a dash")
	require.ErrorContains(t, err, "key nul: has a NUL character")
	require.ErrorContains(t, err, "set token, or acmecredentialConfig-token")
	require.NotContains(t, err.Error(), "hidden")
}

func TestNeedsCredential(t *testing.T) {
	for name, tt := range map[string]struct {
		field crdgen.Field
		spec  map[string]any
		want  bool
	}{
		"required":           {field: crdgen.Field{Credential: crdgen.PrivateCredential}, want: true},
		"given in the spec":  {field: crdgen.Field{Credential: crdgen.PrivateCredential}, spec: map[string]any{"x": "v"}},
		"given empty":        {field: crdgen.Field{Credential: crdgen.PrivateCredential}, spec: map[string]any{"x": ""}, want: true},
		"given null":         {field: crdgen.Field{Credential: crdgen.PrivateCredential}, spec: map[string]any{"x": nil}, want: true},
		"given wrongly":      {field: crdgen.Field{Credential: crdgen.PrivateCredential}, spec: map[string]any{"x": int64(1)}, want: true},
		"optional":           {field: crdgen.Field{Credential: crdgen.PublicCredential, Optional: true}},
		"with a default":     {field: crdgen.Field{Credential: crdgen.PublicCredential, Default: "d"}},
		"secret but no part": {field: crdgen.Field{Secret: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.field.Name, tt.field.Flag, tt.field.Type = "x", "acme-x", crdgen.String
			require.Equal(t, tt.want, len(credential.RequiredKeys([]crdgen.Field{tt.field}, tt.spec)) > 0)
		})
	}
	require.Empty(t, credential.RequiredKeys(nil, nil))
	fields := acmeFields()
	credential.RequiredKeys(fields, map[string]any{"token": "t"})
	require.Equal(t, acmeFields(), fields, "the caller's fields stay as they are")
}

func TestFilesLeaveOutWhatIsEmpty(t *testing.T) {
	require.Empty(t, credential.Files("acme", acmeFields(), bytesOf(map[string]string{"sshKeyContents": "", "token": "t", "unknown": "x"})))
	require.Equal(t, map[string][]byte{"acme-ssh-key-path": []byte("KEY\n")},
		credential.Files("acme", acmeFields(), bytesOf(map[string]string{"acmecredentialConfig-sshKeyContents": "KEY\n"})))
}

// A credential's field whose flag names no variable is handed over all the same, and no other.
func TestOptions(t *testing.T) {
	field := func(name, variable string, part crdgen.Credential) crdgen.Field {
		return crdgen.Field{Name: name, Flag: "acme-" + name, EnvVar: variable, Type: crdgen.String, Credential: part}
	}
	file := field("ca", "", crdgen.PrivateCredential)
	file.File = true
	fields := []crdgen.Field{file, field("token", "", crdgen.PrivateCredential), field("region", "", crdgen.PublicCredential), field("user", "ACME_LOGIN", crdgen.PublicCredential),
		field("size", "", ""), field("zone", "", crdgen.PublicCredential)}
	env, err := credential.Env("acme", fields, bytesOf(map[string]string{"token": "t\n", "region": "r", "user": "u", "size": "s", "ca": "c", "zone": "z"}))
	require.NoError(t, err)
	delete(env, "ACME_ZONE") // as of a credential that was kept
	require.Equal(t, map[string]any{"acme-token": "t", "acme-region": "r"}, credential.Options("acme", fields, env))
}

func FuzzEnv(f *testing.F) {
	f.Add("token", []byte("t\n"))
	f.Add("acmecredentialConfig-", []byte("x"))
	f.Add("a.b_C9", []byte("a\nb"))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		env, err := credential.Env("acme", []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String, Optional: true}}, map[string][]byte{key: value})
		if err != nil {
			return
		}
		for name, text := range env {
			require.Regexp(t, `^ACME_[A-Z0-9_]*$`, name)
			require.NotContains(t, text, "\x00")
		}
	})
}

// What a key of the Secret becomes by itself is a setting of the driver's, none of the process and none that names a file or program.
func TestEnvRefusesSettingsOfTheProcess(t *testing.T) {
	token := []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String}}
	for driver, keys := range map[string][]string{
		"amazonec2": {"configFile", "AWS_CONFIG_FILE", "sharedCredentialsFile", "webIdentityTokenFile", "caBundle", "profile"},
		"google":    {"applicationCredentials", "externalAccountAllowExecutables"},
		"https":     {"proxy"}, "ld": {"preload", "LD_LIBRARY_PATH"}, "machine": {"plugin.token"}, "go": {"debug"}, "ssl": {"cert.dir"}, "acme": {"credentialProcess", "command"},
	} {
		for _, key := range keys {
			_, err := credential.Env(driver, token, map[string][]byte{key: []byte("hidden")})
			require.ErrorContains(t, err, "key "+key+": ", driver)
			require.ErrorContains(t, err, "is a setting of the driver's process or names a file")
			require.NotContains(t, err.Error(), "hidden")
		}
	}
	env, err := credential.Env("amazonec2", []crdgen.Field{{Name: "x", Flag: "amazonec2-x", EnvVar: "AWS_SHARED_CREDENTIALS_FILE", Type: crdgen.String}},
		map[string][]byte{"x": []byte("v")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "v"}, env, "what a flag of the driver says is the driver's")
}

func TestEnvUsesTheDriversOwnVariables(t *testing.T) {
	full := map[string]string{"ACME_TOKEN_VAR": "t", "ACME_ACCOUNT": "a", "ACME_PORT": "443"}
	for name, test := range map[string]struct {
		data map[string]string
		want map[string]string
	}{
		"plain keys":       {map[string]string{"token": "t", "account": "a"}, full},
		"Rancher's keys":   {map[string]string{"acmecredentialConfig-token": "t", "acmecredentialConfig-account": "a"}, full},
		"flags as keys":    {map[string]string{"acme-token": "t", "acme-account": "a"}, full},
		"variable as key":  {map[string]string{"ACME_TOKEN_VAR": "t", "account": "a"}, full},
		"trailing newline": {map[string]string{"token": "t\n", "account": "a\r\n"}, full},
		"own port": {map[string]string{"token": "t", "account": "a", "port": "8443"},
			map[string]string{"ACME_TOKEN_VAR": "t", "ACME_ACCOUNT": "a", "ACME_PORT": "8443"}},
		"other keys": {map[string]string{"token": "t", "account": "a", "defaultRegion": "eu", "ACME_EXTRA": "1"},
			map[string]string{"ACME_TOKEN_VAR": "t", "ACME_ACCOUNT": "a", "ACME_PORT": "443", "ACME_DEFAULT_REGION": "eu", "ACME_EXTRA": "1"}},
		"several lines": {map[string]string{"token": "a\nb\n", "account": "a"},
			map[string]string{"ACME_TOKEN_VAR": "a\nb\n", "ACME_ACCOUNT": "a", "ACME_PORT": "443"}},
		"a file": {map[string]string{"token": "t", "account": "a", "sshKeyContents": "KEY"}, full},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := credential.Env("acme", acmeFields(), bytesOf(test.data))
			require.NoError(t, err)
			require.Equal(t, test.want, env)
		})
	}
	require.Equal(t, map[string][]byte{"acme-ssh-key-path": []byte("KEY\n")},
		credential.Files("acme", acmeFields(), bytesOf(map[string]string{"sshKeyContents": "KEY", "token": "t"})))
}

func TestEnvNamesMissingKeys(t *testing.T) {
	_, err := credential.Env("acme", acmeFields(), bytesOf(map[string]string{"token": " \n"}))
	require.ErrorContains(t, err, "key token is missing or empty")
	require.ErrorContains(t, err, "acmecredentialConfig-account")
	require.NotContains(t, err.Error(), "project")
	require.NotContains(t, err.Error(), "key port")

	_, err = credential.Env("acme", acmeFields(), bytesOf(map[string]string{"token": "hid\x00den", "account": "a"}))
	require.ErrorContains(t, err, "key token: has a NUL")
	require.NotContains(t, err.Error(), "den\x00")

	given := map[string]any{"token": "t", "account": "a"}
	require.NotEmpty(t, credential.RequiredKeys(acmeFields(), nil))
	require.Empty(t, credential.RequiredKeys(acmeFields(), given))
}

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
		env, err := credential.Env("acme", fields, bytesOf(map[string]string{key: "v"}))
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
			env, err := credential.Env("acme", fields, bytesOf(tt.data))
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
		env, err := credential.Env("acme", fields, bytesOf(map[string]string{"token": value}))
		require.NoError(t, err, "%.20q", value)
		require.Equal(t, map[string]string{"T": want}, env)
	}
	for value, want := range map[string]string{
		"":        "key token is missing or empty: set token, or acmecredentialConfig-token, in the Secret",
		" \r\n\t": "key token is missing or empty: set token, or acmecredentialConfig-token, in the Secret",
		"a\x00b":  "key token: has a NUL character",
	} {
		_, err := credential.Env("acme", fields, bytesOf(map[string]string{"token": value}))
		require.EqualError(t, err, "reading the credential of driver acme: "+want)
	}
}

// Keys of a Secret that are no field's become variables; what cannot is named, never guessed.
func TestForeignKeysBecomeVariables(t *testing.T) {
	for key, want := range map[string]string{
		"region":                       "ACME_REGION_X",
		"defaultRegion":                "ACME_DEFAULT_REGION",
		"default.region":               "ACME_DEFAULT_REGION",
		"default_region":               "ACME_DEFAULT_REGION",
		"DEFAULT_REGION":               "ACME_DEFAULT_REGION",
		"acmecredentialConfig-apiURL":  "ACME_API_URL",
		"ACME_DEBUG":                   "ACME_DEBUG",
		"s3Bucket2Name":                "ACME_S3_BUCKET2_NAME",
		"LD_PRELOAD":                   "ACME_LD_PRELOAD",
		"_":                            "ACME__",
		"a.b.c":                        "ACME_A_B_C",
		"othercredentialConfig-secret": "ACME_SECRET",
	} {
		if key == "region" {
			continue // a field of its own, below
		}
		env, err := credential.Env("acme", nil, map[string][]byte{key: []byte("v")})
		require.NoError(t, err, key)
		require.Equal(t, map[string]string{want: "v"}, env, key)
	}
	env, err := credential.Env("acme", acmeFields()[:1], map[string][]byte{"region": []byte("r2")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ACME_REGION": "r2"}, env, "a field that belongs to no credential may stand in it")
	for _, key := range []string{"a b", "a/b", "ä", "a=b", "trailing-", "\x00", "$(x)"} {
		_, err := credential.Env("acme", nil, map[string][]byte{key: []byte("marker")})
		require.ErrorContains(t, err, "cannot become an environment variable", "%q", key)
		require.NotContains(t, err.Error(), "marker")
	}
}

// What each built-in driver's credential must and may hold, and as which variables the driver gets it.
func TestBuiltinCredentialsAreGolden(t *testing.T) {
	var out strings.Builder
	all := builtinFields(t)
	for _, driver := range slices.Sorted(maps.Keys(all)) {
		fields := all[driver]
		fmt.Fprintf(&out, "%s: needed %t\n", driver, len(credential.RequiredKeys(fields, nil)) > 0)
		if _, err := credential.Env(driver, fields, nil); err != nil {
			fmt.Fprintf(&out, "  empty: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n         "))
		}
		full := map[string][]byte{}
		for _, field := range fields {
			if field.Credential != "" {
				full[driver+"credentialConfig-"+field.Name] = []byte("7")
			}
			if field.Name == "sshKey" {
				full[driver+"credentialConfig-"+field.Name] = []byte("-----BEGIN PRIVATE KEY-----")
			}
		}
		env, err := credential.Env(driver, fields, full)
		require.NoError(t, err)
		for _, name := range slices.Sorted(maps.Keys(env)) {
			fmt.Fprintf(&out, "  full: %s=%s\n", name, env[name])
		}
	}
	golden.Require(t, "testdata/credentials.golden", out.String())
}

// builtinFields returns the fields of every built-in driver under the rules it is predefined with.
func builtinFields(t *testing.T) map[string][]crdgen.Field {
	t.Helper()
	out := map[string][]crdgen.Field{}
	for _, nd := range driver.Predefined() {
		flags, builtin := driver.Builtin(nd.DriverName())
		if !builtin {
			continue
		}
		rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
		require.NoError(t, err, nd.Name)
		out[nd.DriverName()], err = crdgen.FieldsOf(nd.DriverName(), flags, rules)
		require.NoError(t, err, nd.Name)
	}
	return out
}

func acmeFields() []crdgen.Field {
	return []crdgen.Field{
		{Name: "region", Flag: "acme-region", EnvVar: "ACME_REGION", Type: crdgen.String, Default: "r1"},
		{Name: "sshPort", Flag: "acme-ssh-port", Type: crdgen.Int, Default: int64(22)},
		{Name: "backups", Flag: "acme-backups", Type: crdgen.Bool},
		{Name: "ipv6", Flag: "acme-ipv6", Type: crdgen.Bool, Default: true},
		{Name: "tags", Flag: "acme-tags", Type: crdgen.StringSlice, Default: []string{"x"}},
		{Name: "sshKeyContents", Flag: "acme-ssh-key-path", Type: crdgen.String, Secret: true, File: true},
		{Name: "token", Flag: "acme-token", EnvVar: "ACME_TOKEN_VAR", Type: crdgen.String, Secret: true, Credential: crdgen.PrivateCredential},
		{Name: "account", Flag: "acme-account", Type: crdgen.String, Credential: crdgen.PublicCredential},
		{Name: "port", Flag: "acme-port", EnvVar: "ACME_PORT", Type: crdgen.Int, Credential: crdgen.PublicCredential, Default: int64(443)},
		{Name: "project", Flag: "acme-project", Type: crdgen.String, Credential: crdgen.PublicCredential, Optional: true},
	}
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}
