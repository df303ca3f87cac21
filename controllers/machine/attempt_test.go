package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// An outage strands nobody: after hours of it the next attempt still comes by itself.
func TestOutage(t *testing.T) {
	for _, class := range []string{rkev1.ClassTransient, rkev1.ClassUnknown} {
		s := begun(t)
		for attempt := int32(1); attempt <= 12; attempt++ {
			s.fail(state.Create, attempt, class, "dial tcp: connection refused", false)
			status := s.reconcile()
			s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
			require.LessOrEqual(t, status.NextAttemptTime.Sub(s.clock.Now()), 36*time.Minute)
			s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
			s.reconcile()
		}
		s.succeed(13)
		require.True(t, s.reconcile().Ready)
	}
}

// Attempts that made a server and failed cost money. They are counted over what fails otherwise, and stop.
func TestMadeBudget(t *testing.T) {
	s := begun(t)
	attempt := int32(1)
	for made := 1; made <= jobrunner.MadeBudget; made++ {
		s.fail(state.Create, attempt, rkev1.ClassTransient, "no route to host", false)
		s.clock.SetTime(s.reconcile().NextAttemptTime.Add(time.Second))
		s.reconcile()
		now := s.clock.Now()
		s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: attempt + 1, Outcome: state.Failed, Class: rkev1.ClassTransient,
			Reason: "DriverFailed", Message: "it has no address", Made: true, StartTime: now, EndTime: now}})
		s.end(state.Create, attempt+1, batchv1.JobFailed, "BackoffLimitExceeded")
		status := s.reconcile()
		if made == jobrunner.MadeBudget {
			break
		}
		s.clock.SetTime(status.NextAttemptTime.Add(time.Second))
		s.reconcile()
		attempt += 2
	}
	says := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason).Message
	require.Contains(t, says, "5 attempts created a server and then failed, and each server costs money")
	s.clock.SetTime(s.clock.Now().Add(1000 * time.Hour))
	require.EqualValues(t, 10, s.reconcile().Attempts)
	s.annotate(rkev1.RetryAnnotation, "the user looked")
	require.EqualValues(t, 11, s.reconcile().Attempts)
	s.fail(state.Create, 11, rkev1.ClassTransient, "no route to host", false)
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
}

// A bootstrap provider that tells attempts apart is asked for the data of each but the first before its Job is made; that its token is another is no reason to
// try again, and other data is.
func TestArm(t *testing.T) {
	s := begun(t)
	bootstrap := func(do func(*corev1.Secret)) *corev1.Secret {
		secret := testkit.ExpectExists(t, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "bootstrap"}})
		do(secret)
		s.update(secret)
		return secret
	}
	s.fail(state.Create, 1, rkev1.ClassInvalid, "no such region", false)
	bootstrap(func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{rkev1.ArmedForAnnotation: "1", rkev1.DataVersionAnnotation: "1"}
	})
	s.annotate(rkev1.RetryAnnotation, "1")
	s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForBootstrapReason).Message, "is for attempt 1; waiting for its provider to write it for attempt 2")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
	bootstrap(func(secret *corev1.Secret) {
		require.Equal(t, "2", secret.Annotations[rkev1.CreateAttemptAnnotation])
		secret.Annotations[rkev1.ArmedForAnnotation], secret.Data["value"] = "2", []byte("#!/bin/sh\ntoken of attempt 2\n")
	})
	require.EqualValues(t, 2, s.reconcile().Attempts)
	s.fail(state.Create, 2, rkev1.ClassInvalid, "no such region", false)
	s.reconcile()
	bootstrap(func(secret *corev1.Secret) { secret.Data["value"] = []byte("#!/bin/sh\nits token is burned\n") })
	require.EqualValues(t, 2, s.reconcile().Attempts)
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason)
	bootstrap(func(secret *corev1.Secret) {
		secret.Annotations[rkev1.DataVersionAnnotation], secret.Annotations[rkev1.ArmedForAnnotation] = "2", "3"
	})
	require.EqualValues(t, 3, s.reconcile().Attempts)
}

// lose plays a Job whose node is lost: its pod was told to end, and nobody is there to end it.
func (s *subject) lose(operation state.Operation) *corev1.Pod {
	s.Helper()
	job := testkit.ExpectExists(s, s.client, s.job(operation, 1))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: job.Spec.Template.Labels},
		Spec: corev1.PodSpec{NodeName: "gone-1", Containers: []corev1.Container{{Name: "machine", Image: "x"}}, ServiceAccountName: s.name + "-machine", AutomountServiceAccountToken: new(bool)}}
	require.NoError(s, s.client.Create(s.Context(), pod))
	s.podIs(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	require.NoError(s, s.client.Delete(s.Context(), pod, client.GracePeriodSeconds(30)))
	s.Cleanup(func() { _ = s.client.Delete(s.Context(), pod, client.GracePeriodSeconds(0)) })
	s.clock.SetTime(time.Now())
	return pod
}

// TestThrottled: a Job that runs and reports that the cloud limits its requests gives the machine a reason of its own, until it no longer
// reports this.
func TestThrottled(t *testing.T) {
	s := begun(t)
	s.podOf(testkit.ExpectExists(t, s.client, s.job(state.Create, 1)))
	running := func() { s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason) }
	report := state.Progress{Operation: state.Create, Attempt: 1, ThrottledSince: time.Date(2026, 11, 28, 6, 0, 1, 0, time.UTC), Throttled: "[429] Too many\x1b requests"}
	s.write(map[string]any{state.ProgressKey: report})
	require.Equal(t, rkev1.PhaseCreating, s.reconcile().Phase)
	const message = "Job m-create-1 is running, attempt 1: the cloud has limited the request rate since 2026-11-28T06:00:01Z, and the driver repeats its request until the Job's deadline. " +
		"The driver reports: [429] Too many requests"
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.ThrottledReason).Message, message+"\n* Follow the driver's log: drover logs m ")
	require.Contains(t, s.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ThrottledReason).Message, message)
	wrote := s.wrote()
	s.reconcile()
	require.Equal(t, wrote, s.wrote(), "nothing changed")

	for _, other := range []state.Progress{{Operation: state.Create, Attempt: 2, Throttled: "x"}, {Operation: state.Remove, Attempt: 1, Throttled: "x"}, {Operation: state.Create, Attempt: 1}} {
		s.write(map[string]any{state.ProgressKey: other})
		s.reconcile()
		running()
	}
	s.write(map[string]any{state.ProgressKey: report})
	s.reconcile()
	s.write(map[string]any{state.ProgressKey: nil})
	s.reconcile()
	running()
}

// A pod on a lost node never ends. It is said which node, since when and what to do; when the pod is gone, it goes on.
func TestNodeLost_create(t *testing.T) {
	s := begun(t)
	pod := s.lose(state.Create)
	require.Less(t, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, 2*time.Minute, "nobody tells that it is overdue")
	s.read()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason)
	s.clock.SetTime(time.Now().Add(2 * time.Minute))
	s.reconcile()
	says := s.expect(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.NodeSilentReason).Message
	for _, part := range []string{"its node gone-1 has been unreachable since ", "kubectl delete node gone-1", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"} {
		require.Contains(t, says, part)
	}
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))

	require.NoError(t, s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	s.end(state.Create, 1, batchv1.JobFailed, "BackoffLimitExceeded")
	s.reconcile()
	s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason)
}

// However a removal is held up by a lost node, the user can give the server up.
func TestNodeLost_abandon(t *testing.T) {
	for name, operation := range map[string]state.Operation{"while the server is made": state.Create, "while it is removed": state.Remove} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			if operation == state.Remove {
				s.succeed(1)
				s.reconcile()
				s.remove()
			}
			s.write(map[string]any{state.JournalKey: state.Journal{Operation: operation, Attempt: 1, Phase: state.PhaseIntent, InstanceName: s.name}})
			s.lose(operation)
			if operation == state.Create {
				s.delete(s.obj)
			}
			s.annotate(rkev1.AbandonAnnotation, s.name)
			s.reconcile()
			s.clock.SetTime(time.Now().Add(2 * time.Minute))
			testkit.ExpectReconciled(t, s.reconciler, s.obj)
			testkit.ExpectNotFound(t, s.client, s.obj)
		})
	}
}

// doubts plays a create of which nobody but the user can tell what it made.
func (s *subject) doubts(attempt int32, words string) {
	s.Helper()
	now := s.clock.Now()
	retry := s.requestOf(state.Create, attempt).Retry
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: state.Create, Attempt: attempt, Phase: state.PhaseIntent, InstanceName: s.name},
		state.LogKey:     words + "\n",
		state.ResultKey: state.Result{Operation: state.Create, Attempt: attempt, Outcome: state.Failed, Class: rkev1.ClassUnknown, Reason: rkev1.ServerMayExistReason,
			Message: words, ServerMayExist: true, Retry: &retry, StartTime: now, EndTime: now},
	})
	s.end(state.Create, attempt, batchv1.JobFailed, "BackoffLimitExceeded")
}

// TestDoubt_keepsItsWords: after a create that may have made a server which nobody can look for, no other attempt starts, whatever else
// changes, and none writes over what the driver had said. It goes on when the user has looked.
func TestDoubt_keepsItsWords(t *testing.T) {
	w := newWorld(t)
	w.secret("acme", string(rkev1.CloudCredentialSecretType), map[string]string{"acmecredentialConfig-token": "t"})
	w.external("acme", "https://drivers.test/acme", strings.Repeat("a", 64))
	s := w.machine("acme", "m", map[string]any{"region": "x", "common": map[string]any{"cloudCredentialSecretName": "acme"}})
	s.reconcile()
	s.doubts(1, "DEVCLOUD-4711: account suspended")
	s.reconcile()
	s.clock.SetTime(s.clock.Now().Add(24 * time.Hour))
	s.settings.Proxy.HTTPS = "http://proxy.test:3128"
	s.reconciler = s.manager().For(s.kind)
	status := s.reconcile()
	says := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason).Message
	require.Contains(t, says, "attempt 1 failed (Unknown, ServerMayExist): DEVCLOUD-4711: account suspended")
	require.Equal(t, []any{int32(1), rkev1.ClassUnknown}, []any{status.LastAttempt.Number, status.LastAttempt.Class})
	require.Contains(t, status.LastAttempt.LogTail, "account suspended")
	testkit.ExpectNotFound(t, s.client, s.job(state.Create, 2))
	s.annotate(rkev1.RetryAnnotation, "the user looked")
	require.EqualValues(t, 2, s.reconcile().Attempts)
	require.EqualValues(t, 1, s.requestOf(state.Create, 2).Looked)
}

// TestTaken_isTold: the condition, and so its event, tells that the server is one whose create had failed.
func TestTaken_isTold(t *testing.T) {
	s := begun(t)
	s.succeed(1)
	s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, Taken: "its driver created it and then failed: no volume", EndTime: s.clock.Now()}})
	s.reconcile()
	require.Contains(t, s.expect(rkev1.CreateJobCondition, metav1.ConditionTrue, rkev1.JobSucceededReason).Message, "took over server m, attempt 1: its driver created it and then failed: no volume")
}
