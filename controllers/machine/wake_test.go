package machine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/state"
)

// joining is a workload cluster whose Node comes when the test says so.
type joining struct {
	mu   sync.Mutex
	id   string
	wake func(client.ObjectKey, types.UID)
}

func (j *joining) ProviderID(context.Context, client.ObjectKey, workload.Server) (string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id, nil
}

func (j *joining) OnNode(wake func(client.ObjectKey, types.UID)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wake = wake
}

// joins lets the Node join, and tells.
func (j *joining) joins(cluster client.ObjectKey, machine types.UID, id string) {
	j.mu.Lock()
	j.id = id
	wake := j.wake
	j.mu.Unlock()
	wake(cluster, machine)
}

// says expects a condition of this reason and, where that is given, this status.
func says(condition, reason string) func(watch.Event) bool {
	return func(e watch.Event) bool {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == condition && c["reason"] == reason {
				return true
			}
		}
		return false
	}
}

func (s *subject) podOf(job *batchv1.Job) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: job.Spec.Template.Labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "machine", Image: "x"}}, ServiceAccountName: s.name + "-machine", AutomountServiceAccountToken: new(bool)}}
	require.NoError(s, s.client.Create(s.Context(), pod))
	return pod
}

func (s *subject) podIs(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	s.Helper()
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "machine", State: state}}
	require.NoError(s, s.client.Status().Update(s.Context(), pod))
}

func (s *subject) awaitSaying(condition, reason string) {
	s.Helper()
	s.await(listOf(s.obj.GetKind()), s.namespace, s.name, says(condition, reason))
}

// TestWake runs the controller in a real manager: pods and Nodes bring a machine forward by watch. What it would do by its
// clock comes minutes later, long after this test has given up.
func TestWake_podsAndNodes(t *testing.T) {
	w := newWorld(t)
	cluster := &joining{}
	w.startManager(cluster)
	s := w.machine("digitalocean", "m", droplet())
	s.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	job := s.job(state.Create, 1)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(job), job))

	pod := s.podOf(job)
	s.podIs(pod, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}})
	s.awaitSaying(rkev1.ReadyCondition, rkev1.ImageReason)
	s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	s.awaitSaying(rkev1.ReadyCondition, rkev1.JobRunningReason)

	s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseBootstrapped},
		state.ServerKey: state.Server{InstanceID: "1"},
		state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded}})
	s.awaitSaying(rkev1.ProviderIDKnownCondition, rkev1.WaitingForNodeReason)
	cluster.joins(client.ObjectKeyFromObject(w.cluster), s.capi.UID, "k3s://m")
	s.awaitSaying(rkev1.ProviderIDKnownCondition, rkev1.ProviderIDSetReason)
}

// A create that is being cancelled waits for its pod; the remove begins when that ends, also when its Job went first.
func TestWake_cancelledCreate(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	s := w.machine("digitalocean", "m", droplet())
	s.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	job := s.job(state.Create, 1)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	pod := s.podOf(job)
	s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent, InstanceName: "m"}})

	s.read()
	s.delete(s.obj)
	s.awaitSaying(rkev1.DeleteJobCondition, rkev1.JobCancelledReason)
	s.await(&batchv1.JobList{}, s.namespace, job.Name, func(e watch.Event) bool {
		obj, ok := e.Object.(*batchv1.Job)
		return ok && !obj.DeletionTimestamp.IsZero()
	})
	s.dropJobFinalizers()
	s.podIs(pod, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143}})
	s.await(&batchv1.JobList{}, s.namespace, "m-rm-1", func(e watch.Event) bool { return e.Type == watch.Added })
	s.removed(1)
	s.awaitGone(listOf(s.obj.GetKind()), s.obj)
}

// A credential that comes late wakes the machine that waits for it.
func TestWake_secrets(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	s := w.machine("digitalocean", "m", map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": "late"}})
	s.awaitSaying(rkev1.CredentialReadyCondition, rkev1.CredentialMissingReason)
	w.secret("late", "Opaque", map[string]string{"other": "x"})
	s.awaitSaying(rkev1.CredentialReadyCondition, rkev1.CredentialInvalidReason)
	rotated := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "late"}}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(rotated), rotated))
	rotated.StringData = map[string]string{"accessToken": "right"}
	w.update(rotated)
	s.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
}

// A machine whose CAPI Machine is gone is deleted when its Cluster is not paused any more.
func TestWake_unpausedWithoutItsMachine(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	s := w.machine("digitalocean", "m", droplet())
	s.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	s.succeed(1)
	s.awaitSaying(rkev1.ReadyCondition, rkev1.ReadyReason)
	s.pause(true)
	s.awaitSaying(rkev1.PausedCondition, clusterv1.PausedReason)
	s.delete(s.capi)
	s.read()
	s.delete(s.obj)
	s.await(listOf(s.obj.GetKind()), s.namespace, s.name, hasPhase(rkev1.PhaseDeleting))
	s.pause(false)
	s.await(&batchv1.JobList{}, s.namespace, "m-rm-1", func(e watch.Event) bool { return e.Type == watch.Added })
}

func (w *world) pause(paused bool) {
	w.Helper()
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKeyFromObject(w.cluster), w.cluster))
	w.cluster.Spec.Paused = &paused
	w.update(w.cluster)
}

// A Job may be deleted under its pod, by somebody who leaves the pod behind: no second one starts beside it.
func TestOrphanedPod_isWaitedFor(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.reconcile()
	job := s.job(state.Create, 1)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	pod := s.podOf(job)
	s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	require.NoError(t, s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.dropJobFinalizers()

	status := s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobGoneReason)
	require.Contains(t, c.Message, "the Job is gone, but its pod "+pod.Name+" has not ended")
	require.EqualValues(t, 1, status.Attempts)
	s.clock.SetTime(start.Add(24 * time.Hour))
	require.EqualValues(t, 1, s.reconcile().Attempts, "however long that takes")

	s.podIs(pod, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}})
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	require.EqualValues(t, 2, s.reconcile().Attempts)
}

// Machines that were held back are called when the cloud has made a server for the one that asked first.
func TestWake_turns(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	first := w.machine("digitalocean", "first", droplet())
	first.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	first.fail(state.Create, 1, rkev1.ClassCapacity, "Size is not available in this region.", false)
	first.awaitSaying(rkev1.CreateJobCondition, rkev1.WaitingForRetryReason)
	second := w.machine("digitalocean", "second", droplet())
	second.awaitSaying(rkev1.CreateJobCondition, rkev1.WaitingForCapacityReason)
	first.annotate(rkev1.RetryAnnotation, "1")
	first.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
	first.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseCreated}})
	second.awaitSaying(rkev1.CreateJobCondition, rkev1.JobRunningReason)
}
