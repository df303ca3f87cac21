package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// TestCreate_registered: the Job learns whether an agent has registered, because it removes a second server only before that.
func TestCreate_registered(t *testing.T) {
	ours := clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "b"}
	for name, c := range map[string]struct {
		ref  clusterv1.ContractVersionedObjectReference
		data map[string]string
		want string
	}{
		"another provider's": {clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.test", Kind: "Config", Name: "b"}, nil, ""},
		"no agent yet":       {ours, map[string]string{plan.KeyTokenHash: "h"}, jobrunner.RegisteredNone},
		"an agent":           {ours, map[string]string{plan.KeyAgentPublicKey: "k"}, jobrunner.RegisteredUnknown},
		"its server":         {ours, map[string]string{plan.KeyAgentPublicKey: "k", "server": "digitalocean/123"}, "123"},
		"another cloud's":    {ours, map[string]string{plan.KeyAgentPublicKey: "k", "server": "nocloud/123"}, jobrunner.RegisteredUnknown},
		"no plan Secret":     {ours, nil, jobrunner.RegisteredUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).machine("digitalocean", "m", droplet())
			if c.data != nil {
				secret := s.secret(plan.SecretName("b"), plan.SecretType, c.data)
				secret.Annotations = map[string]string{rkev1.AgentServerAnnotation: c.data["server"]}
				s.update(secret)
			}
			s.capi.Spec.Bootstrap.ConfigRef = c.ref
			s.update(s.capi)
			s.reconcile()
			require.Equal(t, c.want, s.requestOf(state.Create, 1).Registered)
		})
	}
}
