package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

func TestCredentialEnvChoosesBetweenKeys(t *testing.T) {
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
			env, err := crdgen.CredentialEnv("acme", fields, bytesOf(tt.data))
			require.NoError(t, err)
			require.Equal(t, tt.want, env)
		})
	}
}

func TestCredentialEnvTellsAllProblemsAtOnce(t *testing.T) {
	fields := []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String, Credential: crdgen.PrivateCredential}}
	_, err := crdgen.CredentialEnv("acme", fields, bytesOf(map[string]string{"bad/key": "hidden", "ends-": "hidden", "nul": "hid\x00den"}))
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
			require.Equal(t, tt.want, crdgen.NeedsCredential([]crdgen.Field{tt.field}, tt.spec))
		})
	}
	require.False(t, crdgen.NeedsCredential(nil, nil))
	fields := acmeFields()
	crdgen.GivenIn(fields, map[string]any{"token": "t"})
	require.Equal(t, acmeFields(), fields, "the caller's fields stay as they are")
}

func TestCredentialFilesLeaveOutWhatIsEmpty(t *testing.T) {
	require.Empty(t, crdgen.CredentialFiles("acme", acmeFields(), bytesOf(map[string]string{"sshKeyContents": "", "token": "t", "unknown": "x"})))
	require.Equal(t, map[string][]byte{"acme-ssh-key-path": []byte("KEY\n")},
		crdgen.CredentialFiles("acme", acmeFields(), bytesOf(map[string]string{"acmecredentialConfig-sshKeyContents": "KEY\n"})))
}

func FuzzCredentialEnv(f *testing.F) {
	f.Add("token", []byte("t\n"))
	f.Add("acmecredentialConfig-", []byte("x"))
	f.Add("a.b_C9", []byte("a\nb"))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		env, err := crdgen.CredentialEnv("acme", []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String, Optional: true}}, map[string][]byte{key: value})
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
func TestCredentialEnvRefusesSettingsOfTheProcess(t *testing.T) {
	token := []crdgen.Field{{Name: "token", Flag: "acme-token", Type: crdgen.String}}
	for driver, keys := range map[string][]string{
		"amazonec2": {"configFile", "AWS_CONFIG_FILE", "sharedCredentialsFile", "webIdentityTokenFile", "caBundle", "profile"},
		"google":    {"applicationCredentials", "externalAccountAllowExecutables"},
		"https":     {"proxy"}, "ld": {"preload", "LD_LIBRARY_PATH"}, "machine": {"plugin.token"}, "go": {"debug"}, "ssl": {"cert.dir"}, "acme": {"credentialProcess", "command"},
	} {
		for _, key := range keys {
			_, err := crdgen.CredentialEnv(driver, token, map[string][]byte{key: []byte("hidden")})
			require.ErrorContains(t, err, "key "+key+": ", driver)
			require.ErrorContains(t, err, "is a setting of the driver's process or names a file")
			require.NotContains(t, err.Error(), "hidden")
		}
	}
	env, err := crdgen.CredentialEnv("amazonec2", []crdgen.Field{{Name: "x", Flag: "amazonec2-x", EnvVar: "AWS_SHARED_CREDENTIALS_FILE", Type: crdgen.String}},
		map[string][]byte{"x": []byte("v")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "v"}, env, "what a flag of the driver says is the driver's")
}
