package crdgen_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// TestSSHContact: what a machine says of its jump host and user means nothing else to ssh, whoever reads it.
func TestSSHContact(t *testing.T) {
	_, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "digitalocean"})
	require.NoError(t, err)
	schema := machine.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["common"].Properties["sshContact"]
	jump, user := regexp.MustCompile(schema.Properties["jumpHost"].Pattern), regexp.MustCompile(schema.Properties["user"].Pattern)
	for _, good := range []string{"bastion", "me@bastion.example:2222", "[2001:db8::1]:22", "a_b.c-d", "h:65535", "h:1"} {
		require.True(t, jump.MatchString(good) && rkev1.IsSSHJumpHost(good), good)
	}
	for _, bad := range []string{"-oProxyCommand=x", "a,b", "a b", "$(x)", "me@", "host:port", "host:0", "host:65536", "a;b", "a%h", "-l@h", "ssh://h", "h\n", "a/b"} {
		require.False(t, jump.MatchString(bad) || rkev1.IsSSHJumpHost(bad), "%q", bad)
	}
	for text, good := range map[string]bool{"": true, "core": true, "me@realm": true, "-oX": false, "a b": false, "$x": false, "%h": false, "a\n": false} {
		require.Equal(t, good, user.MatchString(text), "%q", text)
	}
	require.Equal(t, []float64{1, 65535}, []float64{*schema.Properties["port"].Minimum, *schema.Properties["port"].Maximum})
	require.Equal(t, []float64{1, 1800}, []float64{*schema.Properties["timeoutSeconds"].Minimum, *schema.Properties["timeoutSeconds"].Maximum})
	require.Empty(t, schema.Properties["mode"].XValidations, "a driver with user data may be left alone")
}
