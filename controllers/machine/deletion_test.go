package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

const (
	preDrain     = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/detach"
	preTerminate = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/etcd"
)

// hook puts hooks on the CAPI Machine, in place of those that are there. Cluster API keeps the Machine.
func (s *subject) hook(hooks ...string) {
	s.Helper()
	require.NoError(s, s.client.Get(s.Context(), client.ObjectKeyFromObject(s.capi), s.capi))
	s.capi.Annotations = map[string]string{}
	for _, hook := range hooks {
		s.capi.Annotations[hook] = ""
	}
	if s.capi.DeletionTimestamp.IsZero() {
		s.capi.Finalizers = []string{clusterv1.MachineFinalizer}
	}
	s.update(s.capi)
}

// says plays how far Cluster API is in deleting the CAPI Machine.
func (s *subject) says(reason string) {
	s.Helper()
	require.NoError(s, s.client.Get(s.Context(), client.ObjectKeyFromObject(s.capi), s.capi))
	s.capi.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: reason,
		LastTransitionTime: metav1.Now()}}
	require.NoError(s, s.client.Status().Update(s.Context(), s.capi))
}

// Who deletes the infra machine alone gets its CAPI Machine deleted, and the server goes when that has been asked all that Cluster API asks.
func TestDelete_asksItsMachine(t *testing.T) {
	s := made(t)
	s.hook(preDrain, preTerminate)
	s.events()
	clear(s.writes)
	s.world.delete(s.obj)
	waits := func(says string) {
		t.Helper()
		s.reconcile()
		c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForMachineDeletionReason)
		require.Contains(t, c.Message, says)
		testkit.ExpectNotFound(t, s.client, s.job(state.Remove, 1))
	}
	waits("this machine was deleted without its CAPI Machine m, which is now deleted with it; its server is removed afterwards")
	require.Equal(t, map[string]int{"create *v1.Secret": 1, "delete *v1beta2.Machine": 1, "patch status *unstructured.Unstructured": 1}, s.writes)
	require.False(t, testkit.ExpectExists(t, s.client, s.capi).DeletionTimestamp.IsZero())
	require.Len(t, s.events(), 1)

	waits("waits for its hooks: " + preDrain + ", " + preTerminate)
	s.hook(preTerminate)
	waits("waits for its hooks: " + preTerminate + ";")
	s.hook()
	s.says(clusterv1.MachineDeletingDrainingNodeReason)
	waits("Cluster API has not started to delete its server yet")
	require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "the end of its namespace wakes nobody")
	require.Equal(t, 1, s.writes["delete *v1beta2.Machine"])
	require.Empty(t, s.events(), "it was told once")

	s.says(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
	s.reconcile()
	s.requestOf(state.Remove, 1)
	s.hook(preTerminate) // too late
	s.removed(1)
	s.goes()
}

// What was never made is not asked for long: a Machine that goes at once keeps nobody.
func TestDelete_asksAMachineThatGoes(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.reconcile()
	s.fail(state.Create, 1, rkev1.ClassInvalid, "no such size", false)
	s.reconcile()
	s.world.delete(s.obj)
	s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForMachineDeletionReason)
	testkit.ExpectNotFound(t, s.client, s.capi)
	s.reconcile()
	s.requestOf(state.Remove, 1)
}

// Whom a server's removal waits for, of a Machine with both hooks; the Machine goes with its infra machine wherever that is deleted alone.
func TestDelete_whoIsAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		before         func(*subject)
		waits, keepsIt bool
	}{
		"a Machine that is being deleted": {before: (*subject).deleteOwner, waits: true},
		// As of a Machine without a Node, whose pre-drain hooks Cluster API leaves unasked.
		"Cluster API has come to the server": {before: func(s *subject) {
			s.deleteOwner()
			s.hook(preDrain)
			s.says(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
		}},
		// In the ordinary way its status is behind.
		"no hook is left": {before: func(s *subject) {
			s.deleteOwner()
			s.hook()
			s.says(clusterv1.MachineDeletingDrainingNodeReason)
		}},
		"no Machine": {before: func(s *subject) { s.hook(); s.capi.Finalizers = nil; s.update(s.capi); s.world.delete(s.capi) }},
		"no Cluster": {before: func(s *subject) { s.world.delete(s.cluster) }, keepsIt: true},
		"given up":   {before: func(s *subject) { s.annotate(rkev1.AbandonAnnotation, "m") }},
		"the Machine of another": {before: func(s *subject) {
			require.NoError(s, s.client.Get(s.Context(), client.ObjectKeyFromObject(s.capi), s.capi))
			s.capi.Spec.InfrastructureRef.Name = "another"
			s.update(s.capi)
		}, keepsIt: true},
		"a namespace that is being deleted": {before: func(s *subject) {
			testkit.ExpectApplied(s, s.client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})
			s.world.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
		}, keepsIt: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			s.hook(preDrain, preTerminate)
			tt.before(s)
			s.world.delete(s.obj)
			s.reconcile()
			if tt.waits {
				s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForMachineDeletionReason)
			} else {
				s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
			}
			m := &clusterv1.Machine{}
			err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.capi), m)
			require.NoError(t, client.IgnoreNotFound(err))
			require.Equal(t, tt.keepsIt, err == nil && m.DeletionTimestamp.IsZero())
		})
	}
}
