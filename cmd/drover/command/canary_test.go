package command_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestShop_canary: no command about a provisioning Cluster shows a secret of its Configs, of its
// configuration or of its credential, in no format, also when a change of the secret replaces machines.
func TestShop_canary(t *testing.T) {
	c := withShop(t)
	c.secret(t, "do-token", map[string]string{"accessToken": "canary-credential"})
	secrets := []string{"canary-token", "canary-changed", "canary-credential", "canary-argument"}
	changed := strings.NewReplacer("canary-token", "canary-changed", "max-pods=110", "max-pods=120",
		"rkeConfig:\n", "cloudCredentialSecretName: do-token\n  rkeConfig:\n    machineReplacement: OnApproval\n",
		"kubelet-arg", "agent-token: canary-argument, kubelet-arg").Replace(shopManifest)
	quiet := func(args ...string) {
		t.Helper()
		r := c.drover(t, args...)
		for _, secret := range secrets {
			require.NotContains(t, r.out, secret, args)
			require.NotContains(t, r.errOut, secret, args)
		}
	}
	all := func() {
		t.Helper()
		for _, args := range [][]string{{"why", "cluster/shop"}, {"describe", "cluster/shop"}, {"clusters"}, {"plan", "cluster/shop"}, {"wait", "cluster/shop", "--for", "ready", "--timeout", "10ms"}} {
			quiet(args...)
			for _, format := range []string{"json", "yaml"} {
				if args[0] != "wait" {
					quiet(append(args, "-o", format)...)
				}
			}
		}
		quiet("plan", "-f", file(t, changed))
		quiet("plan", "-f", file(t, changed), "-o", "json")
		quiet("plan", "-f", file(t, strings.Replace(changed, "quantity: 2", "quantity: -1", 1)))
	}
	all()
	// The change is stored, and its replacement waits for an approval.
	documents := strings.Split(changed, "---\n")
	for _, document := range documents[1:] {
		c.replace(t, document)
	}
	c.render(t)
	all()
	require.Contains(t, c.ok(t, "why", "cluster/shop"), "shop")
}

// replace writes an object that exists.
func (c *cluster) replace(t *testing.T, manifest string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(c.namespace)
	require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership))
}
