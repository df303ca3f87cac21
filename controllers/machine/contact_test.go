package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// TestContact: the machine is Ready when the driver is done, while its Job still logs in to the server; what that learned comes later, and a
// pod that is killed meanwhile is no failure. A deletion ends the Job at once.
func TestContact(t *testing.T) {
	w := newWorld(t)
	spec := droplet()
	contact := map[string]any{"port": int64(2222), "user": "core", "timeoutSeconds": int64(30), "jumpHost": "me@bastion.example:22"}
	spec["common"].(map[string]any)["sshContact"] = contact
	s := w.machine("digitalocean", "m", spec)
	s.reconcile()
	require.Equal(t, rkev1.SSHContact{Port: 2222, User: "core", TimeoutSeconds: 30, JumpHost: "me@bastion.example:22"}, s.requestOf(state.Create, 1).SSHContact)

	saved := func(delivery state.Delivery) map[string]any {
		return map[string]any{
			state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped, InstanceName: s.name},
			state.ServerKey:  state.Server{InstanceID: "123", ProviderID: "digitalocean://123"}, state.ExtractedConfigKey: "a tar.gz",
			state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, Delivery: &delivery, StartTime: w.clock.Now(), EndTime: w.clock.Now()},
		}
	}
	s.write(saved(state.Delivery{Message: "the Job logs in to look"}))
	status := s.reconcile()
	require.True(t, status.Ready)
	require.Equal(t, rkev1.PhaseRunning, status.Phase)
	require.True(t, *status.Initialization.Provisioned)
	require.Equal(t, "the Job logs in to look", s.expect(rkev1.BootstrapDeliveredCondition, metav1.ConditionUnknown, rkev1.NotVerifiedReason).Message)

	s.write(saved(state.Delivery{Proven: new(true), Message: "cloud-init has it"}))
	wrote := w.wrote()
	require.True(t, s.reconcile().Ready)
	require.Equal(t, wrote+1, w.wrote(), "the condition, and nothing else")
	s.expect(rkev1.BootstrapDeliveredCondition, metav1.ConditionTrue, rkev1.DeliveredReason)

	s.end(state.Create, 1, batchv1.JobFailed, "BackoffLimitExceeded")
	require.True(t, s.reconcile().Ready)
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
}

// TestContact_deletion does not wait for the contact to end: its Job is told to.
func TestContact_deletion(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped, InstanceName: s.name},
		state.ServerKey:  state.Server{InstanceID: "123", ProviderID: "digitalocean://123"}, state.ExtractedConfigKey: "a tar.gz",
		state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, StartTime: w.clock.Now(), EndTime: w.clock.Now()},
	})
	require.True(t, s.reconcile().Ready)
	s.delete(s.obj)
	s.reconcile()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason)
	job := testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
	require.False(t, job.DeletionTimestamp.IsZero())
}

// TestContact_offWithoutUserData: the bootstrap data would reach nobody. The kind refuses what is known of its driver; what a NodeDriver
// says of it, the condition.
func TestContact_offWithoutUserData(t *testing.T) {
	w := newWorld(t)
	off := map[string]any{"sshContact": map[string]any{"mode": rkev1.SSHContactOff}}
	refused := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"ipAddress": "198.18.0.9", "common": off}}}
	refused.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("GenericMachine"))
	refused.SetNamespace(w.namespace)
	refused.SetName("m")
	err := w.client.Create(t.Context(), refused)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "the bootstrap data goes over SSH, which cannot be Off")

	nd := w.nodeDriver("unsure", "https://drivers.test/unsure", func(nd *managementv3.NodeDriver) {
		nd.Annotations = map[string]string{managementv3.UserDataAnnotation: "habit=none"}
	})
	nd.Status.Digest, nd.Status.AppliedURL = strings.Repeat("a", 64), "https://drivers.test/unsure"
	require.NoError(t, w.client.Status().Update(t.Context(), nd))
	s := w.machine("unsure", "n", map[string]any{"common": off})
	s.reconcile()
	require.Contains(t, s.expect(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.SpecInvalidReason).Message, "spec.common.sshContact.mode must not be Off")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 1), s.stateSecret())
}
