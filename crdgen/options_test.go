package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

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

func TestOptionsLeaveOutWhatIsNotGiven(t *testing.T) {
	for _, spec := range []map[string]any{nil, {"sshKeyContents": nil}, {"sshKeyContents": ""}} {
		values, files, err := crdgen.Options(acmeFields(), spec)
		require.NoError(t, err)
		require.Empty(t, values)
		require.Empty(t, files)
	}
	values, _, err := crdgen.Options(acmeFields(), map[string]any{"ipv6": false, "sshPort": int64(0)})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"acme-ipv6": false, "acme-ssh-port": 0}, values, "an explicit false and zero differ from the defaults")
}

// What is said of each value is in testdata/options.golden.
func TestOptionsNameTheFieldAndHideTheValue(t *testing.T) {
	_, _, err := crdgen.Options(acmeFields(), map[string]any{"region": int64(1), "sshPort": "hidden", "regoin": "hidden"})
	require.EqualError(t, err, "field region: must be a string, is a number\nfield regoin: the driver has no such option\n"+
		"field sshPort: must be an integer, is a string that is not one", "all errors at once")
}
