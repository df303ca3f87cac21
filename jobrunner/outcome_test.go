package jobrunner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

var (
	begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	end   = begin.Add(time.Minute)
)

func job(kind batchv1.JobConditionType, reason string) *batchv1.Job {
	start := metav1.NewTime(begin)
	j := &batchv1.Job{Status: batchv1.JobStatus{StartTime: &start}}
	if kind != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason,
			LastTransitionTime: metav1.NewTime(end)}}
	}
	return j
}

func pod(change func(*corev1.PodStatus)) []corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	change(&p.Status)
	return []corev1.Pod{p}
}

func container(state corev1.ContainerState) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{{State: state}} }
}

func TestOutcomeOf(t *testing.T) {
	result := func(r state.Result) map[string][]byte {
		return map[string][]byte{state.ResultKey: document(t, r)}
	}
	success := result(state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Succeeded, EndTime: end})
	quota := result(state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Failed, Class: rkev1.ClassQuota,
		Reason: "LimitReached", Message: "droplet limit", EndTime: end})
	before := result(state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded, EndTime: end})
	pull := pod(container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}))
	failed := job(batchv1.JobFailed, "BackoffLimitExceeded")

	tests := []struct {
		name     string
		evidence jobrunner.Evidence
		want     jobrunner.Verdict
	}{
		{"runs", jobrunner.Evidence{Job: job("", "")}, jobrunner.Verdict{Start: begin}},
		{"runs, an older result is not its own", jobrunner.Evidence{Job: job("", ""), State: state.Of(before)}, jobrunner.Verdict{Start: begin}},
		{"failed but the Job has not ended", jobrunner.Evidence{Job: job("", ""), State: state.Of(quota)}, jobrunner.Verdict{Start: begin}},
		{"success is believed before the Job has ended", jobrunner.Evidence{Job: job("", ""), State: state.Of(success)},
			jobrunner.Verdict{Done: true, Outcome: state.Succeeded, End: end}},
		{"success although the Job failed", jobrunner.Evidence{Job: failed, State: state.Of(success)},
			jobrunner.Verdict{Done: true, Outcome: state.Succeeded, End: end}},
		{"success and the Job is gone", jobrunner.Evidence{State: state.Of(success)}, jobrunner.Verdict{Done: true, Outcome: state.Succeeded, End: end}},
		{"failure in its own words", jobrunner.Evidence{Job: failed, State: state.Of(quota)},
			jobrunner.Verdict{Done: true, Outcome: state.Failed, Class: "Quota", Reason: "LimitReached", Message: "droplet limit", End: end}},
		{"complete without a result", jobrunner.Evidence{Job: job(batchv1.JobComplete, ""), State: state.Of(before)},
			jobrunner.Verdict{Done: true, Outcome: state.Failed, Class: "Unknown", Reason: "ResultMissing", Start: begin}},
		{"result is rubbish", jobrunner.Evidence{Job: failed, State: state.Of(map[string][]byte{state.ResultKey: []byte("{")})},
			jobrunner.Verdict{Done: true, Outcome: state.Failed, Class: "Unknown", Reason: "ResultInvalid", Start: begin, End: end}},
		{"deadline while the image is missing", jobrunner.Evidence{Job: job(batchv1.JobFailed, "DeadlineExceeded"), Pods: pull},
			jobrunner.Verdict{Done: true, Outcome: state.Failed, Class: "Transient", Reason: "DeadlineExceeded", Start: begin, End: end}},
		{"Job is gone", jobrunner.Evidence{}, jobrunner.Verdict{Done: true, Outcome: state.Failed, Class: "Transient", Reason: "JobGone"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.evidence.Operation, tt.evidence.Attempt = state.Create, 2
			got := jobrunner.OutcomeOf(tt.evidence)
			if tt.want.Message == "" && got.Outcome == state.Failed {
				require.NotEmpty(t, got.Message)
				tt.want.Message = got.Message
			}
			got.Result = nil
			require.Equal(t, tt.want, got)
		})
	}
}

func TestOutcomeOf_deadlineNamesWhatItWaitedFor(t *testing.T) {
	got := jobrunner.OutcomeOf(jobrunner.Evidence{Job: job(batchv1.JobFailed, "DeadlineExceeded"),
		Pods: pod(container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}))})
	require.Contains(t, got.Message, "ErrImagePull")
}

// An attempt is not judged by the pod of the one before it, but it is not begun beside it either.
func TestOutcomeOf_podsOfTheAttemptBefore(t *testing.T) {
	killed := func(attempt string) []corev1.Pod {
		pods := pod(container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}))
		pods[0].Labels, pods[0].Status.Phase = map[string]string{rkev1.AttemptLabel: attempt}, corev1.PodFailed
		return pods
	}
	judge := func(pods []corev1.Pod) jobrunner.Verdict {
		return jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Create, Attempt: 2, Pods: pods})
	}
	require.Equal(t, "OutOfMemory", judge(killed("2")).Reason)
	require.Equal(t, "JobGone", judge(killed("1")).Reason)
	require.Equal(t, "OutOfMemory", judge(append(killed("1"), killed("2")...)).Reason)
	runs := killed("1")
	runs[0].Status.Phase = corev1.PodRunning
	require.False(t, judge(runs).Done)
	held := pod(container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}))
	held[0].Labels = map[string]string{rkev1.AttemptLabel: "1"}
	require.Empty(t, jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: job("", ""), Pods: held}).Reason)
}

// What Kubernetes told of a pod without a word is judged the same when Job and pod are gone; the pod's own word counts before it.
func TestKeep(t *testing.T) {
	evidence := jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: job(batchv1.JobFailed, "BackoffLimitExceeded"),
		Pods: pod(container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}))}
	verdict := jobrunner.OutcomeOf(evidence)
	require.Equal(t, "OutOfMemory", verdict.Reason)
	require.False(t, evidence.Told())
	secret := &corev1.Secret{}
	require.NoError(t, evidence.Keep(verdict, secret))

	later := jobrunner.Evidence{Operation: state.Create, Attempt: 2, State: state.Of(secret.Data)}
	require.True(t, later.Told())
	require.Equal(t, verdict, jobrunner.OutcomeOf(later))
	secret.Data[state.ResultKey] = []byte("{")
	later.State = state.Of(secret.Data)
	require.Equal(t, verdict, jobrunner.OutcomeOf(later), "what cannot be read is no word")
	secret.Data[state.ResultKey] = document(t, state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Succeeded})
	later.State = state.Of(secret.Data)
	require.Equal(t, state.Succeeded, jobrunner.OutcomeOf(later).Outcome)
	delete(secret.Data, state.ResultKey)
	later.Attempt, later.State = 3, state.Of(secret.Data)
	require.False(t, later.Told())
	require.Equal(t, "JobGone", jobrunner.OutcomeOf(later).Reason, "of another attempt it tells nothing")

	running := jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: job("", ""), State: state.Of(secret.Data)}
	require.False(t, jobrunner.OutcomeOf(running).Done)
}

// A quota, a LimitRange or an admission policy may reject the pod of a Job. The Job's status shows
// only that no pod exists.
func TestOutcomeOf_podNotCreated(t *testing.T) {
	late := begin.Add(jobrunner.PodGrace)
	suspend := func(j *batchv1.Job) { j.Spec.Suspend = new(true) }
	evidence := func(now time.Time, change func(*batchv1.Job), pods ...corev1.Pod) jobrunner.Evidence {
		j := job("", "")
		j.Name, j.Namespace, j.CreationTimestamp = "m-create-2", "shop", metav1.NewTime(begin)
		if change != nil {
			change(j)
		}
		return jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: j, Now: now, Pods: pods}
	}
	for name, c := range map[string]struct {
		evidence jobrunner.Evidence
		want     string
	}{
		"soon":             {evidence(late.Add(-time.Second), nil), ""},
		"late":             {evidence(late, nil), rkev1.PodNotCreatedReason},
		"time unknown":     {evidence(time.Time{}, nil), ""},
		"not yet started":  {evidence(late, func(j *batchv1.Job) { j.Status.StartTime = nil }), rkev1.PodNotCreatedReason},
		"resumed just now": {evidence(late, func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: late.Add(-time.Second)} }), ""},
		"suspended":        {evidence(late, suspend), ""},
		"active":           {evidence(late, func(j *batchv1.Job) { j.Status.Active = 1 }), ""},
		"ends":             {evidence(late, func(j *batchv1.Job) { j.Status.Terminating = new(int32(1)) }), ""},
		"succeeded":        {evidence(late, func(j *batchv1.Job) { j.Status.Succeeded = 1 }), ""},
		"failed":           {evidence(late, func(j *batchv1.Job) { j.Status.Failed = 1 }), ""},
		"counted later": {evidence(late, func(j *batchv1.Job) {
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Failed: []types.UID{"u"}}
		}), ""},
		"has a pod": {evidence(late, nil, pod(func(*corev1.PodStatus) {})...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := jobrunner.OutcomeOf(c.evidence)
			require.False(t, got.Done)
			require.Equal(t, c.want, got.Reason)
			if c.want != "" {
				require.Equal(t, "Kubernetes has not created a pod for the Job. A ResourceQuota, a LimitRange or an admission policy of namespace shop may reject the pod; the Job's events contain the error", got.Message)
			}
		})
	}
	told := evidence(late, nil)
	told.State = state.Of(map[string][]byte{state.ResultKey: document(t, state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Failed})})
	require.Empty(t, jobrunner.OutcomeOf(told).Reason, "the pod has written its result")
}
