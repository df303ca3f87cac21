package rkecontrolplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/testkit"
)

// keepPlans has the controller read plan Secrets from a cache of its own.
func (w *world) keepPlans() cache.Cache {
	w.Helper()
	plans, err := rkecontrolplane.NewPlans(testkit.Config(w.T), cache.Options{Scheme: w.Scheme()})
	require.NoError(w, err)
	go func() { _ = plans.Start(w.Context()) }()
	w.r = rkecontrolplane.New(rkecontrolplane.Options{Client: w.WithWatch, Reader: w.WithWatch, Plans: plans, Clusters: w.reached, Clock: w.clock})
	return plans
}

// Of plan Secrets the manager keeps what the planner reads and a bounded number of bytes, of others nothing; and what it writes from that takes
// nothing away from the agent.
func TestNewPlans(t *testing.T) {
	w := newWorld(t)
	plans := w.keepPlans()
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
	w.agent("server", map[string]string{plan.KeyAgentStatus: `{"version":"v1","message":"why","output":"canary"}`})
	secret = kept("server-machine-plan")
	require.NotContains(t, secret.Data, plan.KeyPlan, "it has the cluster's keys in it")
	for key, value := range secret.Data {
		require.NotContains(t, string(value), "canary", key)
		require.Less(t, len(value), 4<<10, key)
	}
	w.applies("server")
	large := w.secret("server-machine-plan")
	large.Data[plan.KeyAgentStatus] = append([]byte(`{"message":"`), append(bytes.Repeat([]byte("x"), 200<<10), `"}`...)...)
	require.NoError(t, w.Update(t.Context(), large))
	require.NotContains(t, kept("server-machine-plan").Data, plan.KeyAgentStatus, "too large to keep")
	w.reconcile()
	w.expectMachine("server", rkev1.WaitingForProbesReason)

	list := &corev1.SecretList{}
	require.NoError(t, plans.List(t.Context(), list, client.InNamespace(w.obj.Namespace)))
	require.Len(t, list.Items, 1)
}

// Who makes many large plan Secrets has the manager keep no more than his share; what is not kept is read, and what goes gives its room back.
func TestNewPlans_share(t *testing.T) {
	w := newWorld(t)
	plans := w.keepPlans()
	const share, each = 8 << 20, 180 << 10
	made := func(name string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}, Type: plan.SecretType, Data: map[string][]byte{}}
		for _, key := range []string{plan.KeyState, plan.KeyMaxFailures, plan.KeyFailureThreshold, plan.KeyAppliedChecksum, plan.KeyFailedChecksum, plan.KeyFailureCount} {
			secret.Data[key] = bytes.Repeat([]byte("x"), 30<<10)
		}
		require.NoError(t, w.Create(t.Context(), secret))
		return secret
	}
	sum := func(wanted int) (size int) {
		testkit.Eventually(t, time.Minute, func() error {
			list := &corev1.SecretList{}
			if err := plans.List(t.Context(), list, client.InNamespace(w.obj.Namespace)); err != nil || len(list.Items) != wanted {
				return errors.Join(err, errors.New("it is behind"))
			}
			size = 0
			for _, one := range list.Items {
				for _, value := range one.Data {
					size += len(value)
				}
			}
			return nil
		})
		return size
	}
	hoard := make([]*corev1.Secret, share/each+5)
	for i := range hoard {
		hoard[i] = made(fmt.Sprintf("hoard-%d", i))
	}
	kept := sum(len(hoard))
	require.LessOrEqual(t, kept, share)
	require.Greater(t, kept, share-2*each)

	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	sum(len(hoard) + 1)
	w.reconcile()
	require.NotNil(t, w.planOf("server"))
	for _, one := range hoard {
		require.NoError(t, w.Delete(t.Context(), one))
	}
	sum(1)
	made("later")
	require.GreaterOrEqual(t, sum(2), each, "the room was given back")
}

// Of a cluster's plan Secrets no more is looked at than the bound, which is said. What only says that it is one of them does not count, nor take the place of one.
func TestPlansExceeded(t *testing.T) {
	w := newWorld(t)
	w.machine("server", "etcd", "control-plane", "worker")
	of := w.secret(plan.SecretName("server"))
	w.server("server", 1)
	const bound, each = 16 << 20, 150 << 10
	made := func(name, owner string) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: name, Labels: of.Labels, OwnerReferences: slices.Clone(of.OwnerReferences)},
			Type: plan.SecretType, Data: map[string][]byte{}}
		secret.OwnerReferences[0].Name = owner
		for _, key := range []string{plan.KeyState, plan.KeyMaxFailures, plan.KeyFailureThreshold, plan.KeyAppliedChecksum, plan.KeyFailedChecksum} {
			secret.Data[key] = bytes.Repeat([]byte("x"), each/5)
		}
		require.NoError(t, w.Create(t.Context(), secret))
	}
	for i := range bound/each + 1 {
		made(fmt.Sprintf("forged-%d", i), "server")
	}
	w.quiet()
	require.NotNil(t, w.planOf("server"))
	w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason)
	for i := range bound/each + 1 {
		made(plan.SecretName(fmt.Sprintf("hoard-%d", i)), fmt.Sprintf("hoard-%d", i))
	}
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.PlansExceededReason), "exceeds 16777216 bytes")
	testkit.ExpectCondition(t, w.machineNamed("server"), rkev1.ReconciledCondition, metav1.ConditionUnknown, rkev1.PlansExceededReason)
}
