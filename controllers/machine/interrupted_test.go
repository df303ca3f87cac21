package machine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// life leads a machine from its creation to its end, whatever happens to the writes of the controller on the way. It plays
// the pods, the Job controller and the user.
type life struct {
	*subject
	made, asked, removed bool
	errors               int
}

// live runs until the machine is gone.
func (l *life) live() {
	l.Helper()
	const enough = 60
	for range enough {
		_, err := l.reconciler.Reconcile(l.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(l.obj)})
		if err != nil {
			l.errors++
		}
		err = l.client.Get(l.Context(), client.ObjectKeyFromObject(l.obj), l.obj.DeepCopy())
		if apierrors.IsNotFound(err) {
			return
		}
		require.NoError(l, err)
		l.play()
	}
	require.Fail(l, "the machine is stuck", "%+v", l.read())
}

func (l *life) play() {
	l.Helper()
	switch {
	case !l.made && l.there(state.Create):
		l.succeed(1)
		l.made = true
	case l.made && !l.asked && l.read().Ready:
		l.delete(l.obj)
		l.asked = true
	case l.asked && !l.removed && l.there(state.Remove):
		l.subject.removed(1)
		l.removed = true
	}
}

func (l *life) there(operation state.Operation) bool {
	l.Helper()
	err := l.client.Get(l.Context(), client.ObjectKeyFromObject(l.job(operation, 1)), &batchv1.Job{})
	require.NoError(l, client.IgnoreNotFound(err))
	return err == nil
}

// expectOneServer looks at what there was in the whole life: one Job each way, and nothing that holds anything up.
func (l *life) expectOneServer() {
	l.Helper()
	jobs := &batchv1.JobList{}
	require.NoError(l, l.client.List(l.Context(), jobs, client.InNamespace(l.namespace)))
	var names []string
	for i := range jobs.Items {
		names = append(names, jobs.Items[i].Name)
	}
	require.Subset(l, []string{"m-create-1", "m-rm-1"}, names, "no attempt was made twice")
	require.True(l, l.made && l.asked && l.removed, "%+v", l)
	secret := testkit.ExpectExists(l, l.client, l.stateSecret())
	require.Empty(l, secret.Finalizers, "the garbage collector may have it")
}

var errRefused = errors.New("the API server is away")

// at makes the n-th write fail before it is done, and the one after that when it was done: the answer is lost.
func at(n int) func(do func() error) error {
	count := 0
	return func(do func() error) error {
		count++
		switch count {
		case n:
			return errRefused
		case n + 1:
			if err := do(); err != nil {
				return err
			}
			return fmt.Errorf("answer lost: %w", errRefused)
		}
		return do()
	}
}

// TestInterrupted_atEachWrite: wherever the API fails the controller, in whichever way, it goes on from there; no server is made
// twice, none is forgotten.
func TestInterrupted_atEachWrite(t *testing.T) {
	calm := &life{subject: newWorld(t).machine("digitalocean", "m", droplet())}
	calm.live()
	calm.expectOneServer()
	writes := calm.wrote()
	require.Zero(t, calm.errors)
	require.Less(t, writes, 30)
	t.Logf("%d writes in a life: %v", writes, calm.writes)
	for n := 1; n <= writes; n += 2 { // each fault is of two writes
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			l := &life{subject: w.machine("digitalocean", "m", droplet())}
			w.fault = at(n)
			l.live()
			l.expectOneServer()
			require.Positive(t, l.errors, "the fault was met")
		})
	}
}

// Two managers at once, as at a change of leaders, make one server.
func TestInterrupted_twoAtOnce(t *testing.T) {
	s := newWorld(t).machine("digitalocean", "m", droplet())
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.obj)}
	const many = 4
	done := make(chan error, many)
	for range many {
		go func() {
			_, err := s.reconciler.Reconcile(t.Context(), request)
			done <- err
		}()
	}
	for range many {
		<-done // conflicts are what is to be expected
	}
	s.reconcile()
	jobs := &batchv1.JobList{}
	require.NoError(t, s.client.List(t.Context(), jobs, client.InNamespace(s.namespace)))
	require.Len(t, jobs.Items, 1)
	s.succeed(1)
	require.Equal(t, rkev1.PhaseRunning, s.reconcile().Phase)
}

// outOfMemory plays a Job whose pod was killed for its memory, and left no word.
func (s *subject) outOfMemory(attempt int32) {
	s.Helper()
	pod := s.podOf(testkit.ExpectExists(s, s.client, s.job(state.Create, attempt)))
	s.podIs(pod, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}})
	s.end(state.Create, attempt, batchv1.JobFailed, "BackoffLimitExceeded")
}

// A manager that dies between claiming an attempt and making its Job finds the pod of the one before, which tells nothing of
// this one.
func TestInterrupted_theAttemptBeforeIsNotThisOne(t *testing.T) {
	s := begun(t)
	s.outOfMemory(1)
	status := s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason).Message, "OutOfMemory")
	s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
	s.fault = func(do func() error) error {
		if testkit.ExpectExists(s, s.client, s.stateSecret()).Annotations["drover.cattle.io/claimed-attempt"] == "2" {
			return errRefused
		}
		return do()
	}
	_, err := s.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.obj)})
	require.ErrorIs(t, err, errRefused)
	s.fault = nil
	status = s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	testkit.ExpectExists(t, s.client, s.job(state.Create, 2))
	require.EqualValues(t, 1, status.LastAttempt.Number, "the second has not ended")
}

// A foreground deletion has the garbage collector take all that the machine owns, also what the removal's pod runs as, which was just
// looked at. Without its ServiceAccount no pod is made, and nobody tells the manager.
func TestMend_makesAgainWhatThePodRunsAs(t *testing.T) {
	s := made(t)
	s.remove()
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.AccessName("m")}
	access := []client.Object{&corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}}
	was := map[client.Object]client.Object{}
	for _, obj := range access {
		was[obj] = testkit.ExpectExists(t, s.client, obj.DeepCopyObject().(client.Object))
		s.delete(obj)
	}
	made := testkit.ExpectExists(t, s.client, s.job(state.Remove, 1)).CreationTimestamp

	clear(s.writes)
	s.clock.SetTime(made.Add(5 * time.Second))
	require.Equal(t, 15*time.Second, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "a pod takes its time")
	require.Zero(t, s.wrote(), "%v", s.writes)
	testkit.ExpectNotFound(t, s.client, access...)

	s.clock.SetTime(made.Add(20 * time.Second))
	require.Equal(t, 20*time.Second, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	for _, obj := range access {
		again := testkit.ExpectExists(t, s.client, obj)
		require.True(t, metav1.IsControlledBy(again, s.obj))
		require.Equal(t, was[obj].GetLabels(), again.GetLabels())
	}
	require.Equal(t, was[access[1]].(*rbacv1.Role).Rules, access[1].(*rbacv1.Role).Rules)
	require.Equal(t, was[access[2]].(*rbacv1.RoleBinding).Subjects, access[2].(*rbacv1.RoleBinding).Subjects)

	clear(s.writes)
	s.clock.SetTime(made.Add(time.Minute))
	require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "later and later")
	s.clock.SetTime(made.Add(time.Hour))
	require.Equal(t, 5*time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	require.Zero(t, s.wrote(), "%v", s.writes)

	// A Job that has its pod needs nothing more.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-rm-1-x", Labels: testkit.ExpectExists(t, s.client, s.job(state.Remove, 1)).Labels},
		Spec: corev1.PodSpec{ServiceAccountName: meta.Name, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	require.Equal(t, string(s.obj.GetUID()), pod.Labels[rkev1.MachineUIDLabel])
	testkit.ExpectApplied(t, s.client, pod)
	s.delete(access[0])
	s.clock.SetTime(made.Add(time.Minute))
	require.Equal(t, 5*time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	testkit.ExpectNotFound(t, s.client, access[0])
}

// A manager that ends between the request Secret and the Job makes the same attempt again. The
// Secret is immutable, and the credential may have changed since.
func TestInterrupted_beforeTheJob_requestIsReplaced(t *testing.T) {
	s := credentialWorld(t)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.obj)}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "m-create-1"}}
	s.fault = func(do func() error) error {
		if s.client.Get(t.Context(), client.ObjectKeyFromObject(key), &corev1.Secret{}) == nil {
			return errRefused
		}
		return do()
	}
	for range 5 {
		_, err := s.reconciler.Reconcile(t.Context(), request)
		if errors.Is(err, errRefused) {
			break
		}
	}
	require.Equal(t, "first-token", s.tokenOf(state.Create, 1))
	first := testkit.ExpectExists(t, s.client, key.DeepCopy())
	s.fault = nil
	rotate("second-token")(s)
	s.reconcile()
	require.Equal(t, "second-token", s.tokenOf(state.Create, 1))
	require.NotEqual(t, first.UID, testkit.ExpectExists(t, s.client, key.DeepCopy()).UID)
	testkit.ExpectExists(t, s.client, s.job(state.Create, 1))
}

// The Job controller cannot create the pod of a Job if a quota rejects it. The condition reports
// this without another event, and recovers when the pod exists.
func TestPodNotCreated(t *testing.T) {
	for operation, condition := range map[state.Operation]string{state.Create: rkev1.CreateJobCondition, state.Remove: rkev1.DeleteJobCondition} {
		t.Run(string(operation), func(t *testing.T) {
			s := begun(t)
			if operation == state.Remove {
				s = made(t)
				s.remove()
			}
			job := testkit.ExpectExists(t, s.client, s.job(operation, 1))
			s.clock.SetTime(job.CreationTimestamp.Add(5 * time.Second))
			require.Equal(t, 15*time.Second, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
			s.read()
			s.expect(condition, metav1.ConditionUnknown, rkev1.JobRunningReason)

			s.clock.SetTime(job.CreationTimestamp.Add(20 * time.Second))
			s.reconcile()
			message := s.expect(condition, metav1.ConditionUnknown, rkev1.PodNotCreatedReason).Message
			require.Contains(t, message, "Job "+job.Name+" waits: Kubernetes has not created a pod for the Job")
			require.Contains(t, message, "kubectl -n "+s.namespace+" describe job "+job.Name)
			require.Equal(t, rkev1.PodNotCreatedReason, s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.PodNotCreatedReason).Reason)
			clear(s.writes)
			s.clock.SetTime(job.CreationTimestamp.Add(time.Minute))
			s.reconcile()
			require.Zero(t, s.wrote(), "%v", s.writes)

			s.podOf(job)
			s.reconcile()
			s.expect(condition, metav1.ConditionUnknown, rkev1.JobRunningReason)
		})
	}
}
