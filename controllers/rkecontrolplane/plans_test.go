package rkecontrolplane_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/testkit"
)

// Of plan Secrets the manager keeps what the planner reads and a bounded number of bytes, of others nothing; and what it writes from that takes
// nothing away from the agent.
func TestNewPlans(t *testing.T) {
	w := newWorld(t)
	plans, err := rkecontrolplane.NewPlans(testkit.Config(t), cache.Options{Scheme: w.Scheme()})
	require.NoError(t, err)
	go func() { _ = plans.Start(t.Context()) }()
	w.r = rkecontrolplane.New(rkecontrolplane.Options{Client: w.WithWatch, Reader: w.WithWatch, Plans: plans, Clusters: w.reached, Clock: w.clock})
	kept := func(name string) *corev1.Secret {
		secret := &corev1.Secret{}
		live := w.secret(name)
		testkit.Eventually(t, time.Minute, func() error {
			if err := plans.Get(t.Context(), client.ObjectKeyFromObject(live), secret); err != nil || secret.ResourceVersion != live.ResourceVersion {
				return errors.Join(err, errors.New("it is behind"))
			}
			return nil
		})
		return secret
	}
	w.machine("server", "etcd", "control-plane", "worker")
	w.agent("server", map[string]string{plan.KeyAppliedOutput: "canary", plan.KeyAgentStatus: `{"version":"v1"}`})
	secret := kept("server-machine-plan")
	require.Equal(t, map[string][]byte{plan.KeyAgentStatus: []byte(`{"version":"v1"}`)}, secret.Data)
	require.Empty(t, secret.ManagedFields)

	w.server("server", 1)
	w.reconcile()
	require.Equal(t, "canary", string(w.secret("server-machine-plan").Data[plan.KeyAppliedOutput]))
	require.NotNil(t, w.planOf("server"))
	kept("server-machine-plan")
	w.applies("server")
	large := w.secret("server-machine-plan")
	large.Data[plan.KeyAgentStatus] = append([]byte(`{"message":"`), append(bytes.Repeat([]byte("x"), 200<<10), `"}`...)...)
	require.NoError(t, w.Update(t.Context(), large))
	require.Empty(t, kept("server-machine-plan").Data, "too large to keep")
	w.reconcile()
	w.expectMachine("server", rkev1.WaitingForProbesReason)

	list := &corev1.SecretList{}
	require.NoError(t, plans.List(t.Context(), list, client.InNamespace(w.obj.Namespace)))
	require.Len(t, list.Items, 1)
}
