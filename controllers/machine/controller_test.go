package machine_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// await watches until the object is as wanted; nothing is polled.
func (w *world) await(list client.ObjectList, namespace, name string, want func(watch.Event) bool) {
	w.Helper()
	w.follow(w.watch(list, namespace, name), want)
}

// awaitGone watches until the object is gone, which it may be before the watch begins.
func (w *world) awaitGone(list client.ObjectList, obj client.Object) {
	w.Helper()
	events := w.watch(list, obj.GetNamespace(), obj.GetName())
	err := w.client.Get(w.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	if apierrors.IsNotFound(err) {
		events.Stop()
		return
	}
	require.NoError(w, err)
	w.follow(events, func(e watch.Event) bool { return e.Type == watch.Deleted })
}

// watch begins with the object as it is, if it is there.
func (w *world) watch(list client.ObjectList, namespace, name string) watch.Interface {
	w.Helper()
	opts := []client.ListOption{client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", name)}}
	if namespace != "" {
		opts = append(opts, client.InNamespace(namespace))
	}
	events, err := w.client.Watch(w.Context(), list, opts...)
	require.NoError(w, err)
	return events
}

func (w *world) follow(events watch.Interface, want func(watch.Event) bool) {
	w.Helper()
	defer events.Stop()
	patience := time.NewTimer(2 * time.Minute)
	defer patience.Stop()
	var last watch.Event
	for {
		select {
		case event, open := <-events.ResultChan():
			require.True(w, open, "the watch ended")
			if want(event) {
				return
			}
			last = event
		case <-patience.C:
			raw, err := json.MarshalIndent(last.Object, "", "  ")
			require.NoError(w, err)
			require.Fail(w, "it did not come to pass", "the last there was is %s %s", last.Type, raw)
		}
	}
}

func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind + "List"))
	return list
}

func hasPhase(phase string) func(watch.Event) bool {
	return func(e watch.Event) bool {
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Deleted {
			return false
		}
		got, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		return got == phase
	}
}

// TestKinds runs the controller in a real manager: a kind is watched when its CRD appears, machines are brought forward by
// watches alone, a CRD goes only after its machines' servers, and a kind can come back.
func TestKinds_comeAndGo(t *testing.T) {
	w := newWorld(t)
	w.startManager(nil)
	fieldsOfDriver, err := crdgen.FieldsOf("late", []crdgen.Flag{{Name: "late-region", Type: crdgen.String}}, crdgen.Rules{})
	require.NoError(t, err)
	for range 2 {
		_, _, crd, err := crdgen.CRDs(crdgen.Schema{Driver: "late", Fields: fieldsOfDriver})
		require.NoError(t, err)
		testkit.ApplyCRDs(t, crd)
		s := w.lateMachine()
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhasePending))

		// The driver appears, and only that wakes the machine.
		nd := w.external("late", "https://drivers.test/late", "0123456789012345678901234567890123456789012345678901234567890123")
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseCreating))
		s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseRecorded},
			state.ServerKey: state.Server{ProviderID: "late://1"},
			state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded}})
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseRunning))

		// The CRD is deleted under the machine: its server is removed all the same.
		s.read()
		w.delete(crd)
		w.await(listOf("LateMachine"), w.namespace, "late", hasPhase(rkev1.PhaseDeleting))
		s.dropJobFinalizers()
		w.await(&batchv1.JobList{}, w.namespace, "late-rm-1", func(e watch.Event) bool { return e.Type == watch.Added })
		s.removed(1)
		w.awaitGone(&apiextensionsv1.CustomResourceDefinitionList{}, crd)
		w.delete(nd)
		w.deleteAll(s)
	}
}

// startManager runs the controller in a real manager until the test ends.
func (w *world) startManager(nodes machine.NodeFinder) {
	w.Helper()
	controllers := capi.ControllerOptions()
	controllers.SkipNameValidation = new(true)
	var namespaces map[string]cache.Config
	if w.limit > 0 { // other tests have Jobs too
		namespaces = map[string]cache.Config{w.namespace: {}}
	}
	mgr, err := ctrl.NewManager(testkit.Config(w), ctrl.Options{Scheme: newScheme(w), NewCache: capi.NewCache, Cache: cache.Options{DefaultNamespaces: namespaces},
		Client: capi.ClientOptions(), Metrics: server.Options{BindAddress: "0"}, Controller: controllers})
	require.NoError(w, err)
	controller := machine.New(machine.Options{Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder("drover"), Settings: jobrunner.Settings{Image: "x"}, Nodes: nodes, MaxConcurrentJobs: w.limit})
	require.NoError(w, controller.Register(mgr))
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		stop()
		require.NoError(w, <-ended)
	})
}

func (w *world) lateMachine() *subject {
	w.Helper()
	s := &subject{world: w, name: "late"}
	s.obj = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"region": "x"}}}
	s.obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("LateMachine"))
	s.obj.SetNamespace(w.namespace)
	s.obj.SetName("late")
	s.capi = w.capiMachine("LateMachine", "late")
	s.obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.capi, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(w, w.client.Create(w.Context(), s.obj))
	return s
}

// deleteAll plays the garbage collector.
func (w *world) deleteAll(s *subject) {
	w.Helper()
	require.NoError(w, client.IgnoreNotFound(w.client.Delete(w.Context(), s.capi)))
	for _, kind := range []client.Object{&batchv1.Job{}, &corev1.Secret{}} {
		require.NoError(w, w.client.DeleteAllOf(w.Context(), kind, client.InNamespace(w.namespace),
			client.MatchingLabels{rkev1.MachineUIDLabel: string(s.obj.GetUID())}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
}

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
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: job.Spec.Template.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "machine", Image: "x"}}, ServiceAccountName: s.name + "-machine", AutomountServiceAccountToken: new(bool),
			TerminationGracePeriodSeconds: job.Spec.Template.Spec.TerminationGracePeriodSeconds}}
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
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
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
	s := begun(t)
	job := s.job(state.Create, 1)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	pod := s.podOf(job)
	s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	require.NoError(t, s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.dropJobFinalizers()

	status := s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobGoneReason)
	require.Contains(t, c.Message, "the Job was deleted, but its pod "+pod.Name+" has not ended")
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
