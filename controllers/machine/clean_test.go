package machine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// going is a machine whose remove Job has begun, and whose Machine is being deleted and has a plan Secret.
func going(t *testing.T) *subject {
	t.Helper()
	s := made(t)
	s.bootstrappedByUs()
	s.secret("b-machine-plan", plan.SecretType, map[string]string{plan.KeyPlan: "{}", plan.KeyState: string(plan.StateSucceeded), plan.KeyAppliedChecksum: plan.Checksum([]byte("{}"))})
	s.remove()
	return s
}

func (s *subject) bootstrappedByUs() {
	s.Helper()
	require.NoError(s, s.client.Get(s.Context(), client.ObjectKeyFromObject(s.capi), s.capi))
	s.capi.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "b"}
	s.update(s.capi)
}

// plans plays who writes plans, and the agent.
func (s *subject) plans(cleans string, data map[string]string) {
	s.Helper()
	secret := testkit.ExpectExists(s, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b-machine-plan"}})
	secret.Annotations, secret.StringData = map[string]string{rkev1.CleansAnnotation: cleans}, data
	s.update(secret)
}

func (s *subject) asked() string {
	s.Helper()
	s.read()
	return s.obj.GetAnnotations()[rkev1.CleanByPlanAnnotation]
}

// A host that SSH does not reach is asked to be cleaned by plan, and its machine goes when the agent has reported, without another Job.
func TestDelete_cleanedByPlan(t *testing.T) {
	for what, class := range map[string]string{"a Job is tried again soon": rkev1.ClassTransient, "a Job is tried again late": rkev1.ClassInvalid} {
		t.Run(what, func(t *testing.T) {
			s := going(t)
			s.notCleaned(1, class)
			s.reconcile()
			uid := string(s.obj.GetUID())
			require.Equal(t, uid, s.asked())
			message := func() string {
				status := s.reconcile()
				return meta.FindStatusCondition(status.Conditions, rkev1.DeleteJobCondition).Message
			}
			require.Contains(t, message(), "HostNotCleaned")
			require.Contains(t, message(), "Its agent gets a plan that cleans the host, if the agent has ever started a plan", "what holds when it is read after the agent was told, too")

			s.plans("another", nil)
			require.Contains(t, message(), "Its agent gets a plan that cleans the host")
			s.plans(uid, map[string]string{plan.KeyPlan: `{"probes":{}}`, plan.KeyState: string(plan.StatePending)})
			require.Contains(t, message(), "Its agent got a plan to clean the host, and has not started it (drover why m shows when the agent last called). The next attempt")
			require.Contains(t, message(), "read the agent's report: drover logs m -n ")
			writes := s.wrote()
			s.reconcile()
			require.Equal(t, writes, s.wrote(), "nothing changed, nothing is written")

			s.plans(uid, map[string]string{plan.KeyState: string(plan.StateInProgress)})
			require.Contains(t, message(), "Its agent got a plan to clean the host, and is applying it")

			checksum := plan.Checksum([]byte(`{"probes":{}}`))
			status, err := json.Marshal(plan.AgentStatus{Checksum: checksum, Step: "instruction clean", Message: "exit status 1", Output: "SECRET"})
			require.NoError(t, err)
			s.plans(uid, map[string]string{plan.KeyState: string(plan.StateInProgress), plan.KeyAgentStatus: string(status)})
			require.Contains(t, message(), "which failed too: instruction clean: exit status 1 (see drover logs m --agent)")
			require.NotContains(t, message(), "SECRET")

			s.plans(uid, map[string]string{plan.KeyState: string(plan.StateSucceeded), plan.KeyAppliedChecksum: checksum})
			s.events()
			s.goes()
			require.Contains(t, strings.Join(s.events(), "\n"), "the machine's agent cleaned the host by plan")
			testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 2))
		})
	}
}

// Over SSH it goes on being tried, and a Job that succeeds is enough; so is giving up.
func TestDelete_notCleanedByPlan(t *testing.T) {
	t.Run("over SSH after all", func(t *testing.T) {
		s := going(t)
		s.notCleaned(1, rkev1.ClassTransient)
		status := s.reconcile()
		s.plans(s.asked(), map[string]string{plan.KeyState: string(plan.StatePending)})
		s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
		s.reconcile()
		s.removed(2)
		s.goes()
	})
	t.Run("given up", func(t *testing.T) {
		s := going(t)
		s.notCleaned(1, rkev1.ClassTransient)
		s.reconcile()
		s.plans(s.asked(), map[string]string{plan.KeyState: string(plan.StatePending)})
		s.annotate(rkev1.AbandonAnnotation, "m")
		s.reconcile()
		s.notCleaned(2, rkev1.ClassTransient)
		s.goes()
	})
}

// Nobody is asked where there is nobody to ask, or what failed is something else.
func TestDelete_nobodyCleansByPlan(t *testing.T) {
	t.Run("the Machine stays", func(t *testing.T) {
		s := made(t)
		s.remove()
		s.notCleaned(1, rkev1.ClassTransient)
		s.reconcile()
		require.Empty(t, s.asked())
	})
	t.Run("another failure", func(t *testing.T) {
		s := going(t)
		s.fail(state.Remove, 1, rkev1.ClassTransient, "503 from the cloud", true)
		s.reconcile()
		require.Empty(t, s.asked())
	})
	t.Run("no plan Secret", func(t *testing.T) {
		s := going(t)
		s.notCleaned(1, rkev1.ClassTransient)
		s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b-machine-plan"}})
		s.reconcile()
		s.reconcile()
		require.Contains(t, s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason).Message, "because its plan Secret b-machine-plan does not exist")
	})
	t.Run("a Secret that is no plan's", func(t *testing.T) {
		s := going(t)
		s.notCleaned(1, rkev1.ClassTransient)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "b-machine-plan"}}
		s.delete(secret)
		s.secret("b-machine-plan", "Opaque", map[string]string{plan.KeyPlan: "{}", plan.KeyState: string(plan.StateSucceeded), plan.KeyAppliedChecksum: plan.Checksum([]byte("{}"))})
		s.reconcile()
		s.plans(s.asked(), nil)
		s.reconcile()
		s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
	})
}
