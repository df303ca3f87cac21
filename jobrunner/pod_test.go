package jobrunner_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func waitingFor(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "detail"}}
}

func initContainer(state corev1.ContainerState) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) { s.InitContainerStatuses = []corev1.ContainerStatus{{State: state}} }
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: kind, Status: status, Message: "detail"}}
	}
}

func TestOutcomeOf_saysWhatHoldsAPodUp(t *testing.T) {
	for name, tt := range map[string]struct {
		status func(*corev1.PodStatus)
		want   string
	}{
		"image, first try":     {container(waitingFor("ErrImagePull")), rkev1.ImageReason},
		"image, backing off":   {container(waitingFor("ImagePullBackOff")), rkev1.ImageReason},
		"name of the image":    {container(waitingFor("InvalidImageName")), rkev1.ImageReason},
		"image never pulled":   {container(waitingFor("ErrImageNeverPull")), rkev1.ImageReason},
		"registry":             {container(waitingFor("RegistryUnavailable")), rkev1.ImageReason},
		"image is damaged":     {container(waitingFor("ImageInspectError")), rkev1.ImageReason},
		"missing Secret":       {container(waitingFor("CreateContainerConfigError")), rkev1.PodPendingReason},
		"no container":         {container(waitingFor("CreateContainerError")), rkev1.PodPendingReason},
		"no process":           {container(waitingFor("RunContainerError")), rkev1.PodPendingReason},
		"stage of a probe":     {initContainer(waitingFor("ErrImagePull")), rkev1.ImageReason},
		"no node":              {condition(corev1.PodScheduled, corev1.ConditionFalse), rkev1.PodPendingReason},
		"scheduled":            {condition(corev1.PodScheduled, corev1.ConditionTrue), ""},
		"being made":           {container(waitingFor("ContainerCreating")), ""},
		"waits for its stages": {container(waitingFor("PodInitializing")), ""},
		"runs":                 {container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Create, Attempt: 1, Job: job("", ""), Pods: pod(tt.status)})
			require.False(t, verdict.Done)
			require.Equal(t, tt.want, verdict.Reason)
			if tt.want == "" {
				require.Empty(t, verdict.Message)
				return
			}
			require.Contains(t, verdict.Message, "the pod p")
			require.Contains(t, verdict.Message, "detail")
		})
	}
}

func TestOutcomeOf_explainsAPodThatSaidNothing(t *testing.T) {
	reason := func(reason string) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) { s.Reason, s.Message = reason, "detail" }
	}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}
	for name, tt := range map[string]struct {
		status                 func(*corev1.PodStatus)
		reason, class, message string
	}{
		"evicted":         {reason("Evicted"), rkev1.EvictedReason, rkev1.ClassTransient, "detail"},
		"node lost":       {reason("NodeLost"), rkev1.NodeLostReason, rkev1.ClassTransient, "detail"},
		"node shut down":  {reason("NodeShutdown"), rkev1.NodeLostReason, rkev1.ClassTransient, "detail"},
		"node terminated": {reason("Terminated"), rkev1.NodeLostReason, rkev1.ClassTransient, "detail"},
		"deadline":        {reason("DeadlineExceeded"), rkev1.DeadlineReason, rkev1.ClassTransient, "did not end within its deadline"},
		"deadline, and its image was missing": {func(s *corev1.PodStatus) { reason("DeadlineExceeded")(s); container(waitingFor("ErrImagePull"))(s) },
			rkev1.DeadlineReason, rkev1.ClassTransient, "deadline: the pod p cannot start (ErrImagePull): detail"},
		"disrupted":     {condition(corev1.DisruptionTarget, corev1.ConditionTrue), rkev1.NodeLostReason, rkev1.ClassTransient, "disrupted: detail"},
		"not disrupted": {condition(corev1.DisruptionTarget, corev1.ConditionFalse), rkev1.ResultMissingReason, rkev1.ClassUnknown, "without a result"},
		"memory":        {container(killed), rkev1.OutOfMemoryReason, rkev1.ClassUnknown, "raise the manager's setting"},
		"memory, probe": {initContainer(killed), rkev1.OutOfMemoryReason, rkev1.ClassInvalid, "the driver exceeded"},
		"killed": {container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137}}),
			rkev1.KilledReason, rkev1.ClassTransient, "was killed (SIGKILL)"},
		"a probe's driver killed": {initContainer(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 137}}),
			rkev1.ResultMissingReason, rkev1.ClassUnknown, "without a result"},
		"exit code": {container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 2}}),
			rkev1.ResultMissingReason, rkev1.ClassUnknown, "without a result"},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Remove, Attempt: 1,
				Job: job(batchv1.JobFailed, "BackoffLimitExceeded"), Pods: pod(tt.status)})
			require.True(t, verdict.Done)
			require.Equal(t, state.Failed, verdict.Outcome)
			require.Equal(t, tt.reason, verdict.Reason)
			require.Equal(t, tt.class, verdict.Class)
			require.Contains(t, verdict.Message, tt.message)
		})
	}
}

// What the kubelet repeats comes from registries and images that nobody here controls.
func TestOutcomeOf_messagesAreBoundedAndPrintable(t *testing.T) {
	hostile := strings.Repeat("ä\x1b[31m", 5000)
	for name, evidence := range map[string]jobrunner.Evidence{
		"waits": {Job: job("", ""), Pods: pod(container(corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: hostile}}))},
		"evicted": {Job: job(batchv1.JobFailed, ""), Pods: pod(func(s *corev1.PodStatus) { s.Reason, s.Message = "Evicted", hostile })},
	} {
		t.Run(name, func(t *testing.T) {
			message := jobrunner.OutcomeOf(evidence).Message
			require.NotEmpty(t, message)
			require.LessOrEqual(t, len(message), 2<<10)
			require.True(t, utf8.ValidString(message))
			require.NotContains(t, message, "\x1b")
		})
	}
}

func TestOutcomeOf_anotherOperationsResultIsNotItsOwn(t *testing.T) {
	created := map[string][]byte{state.ResultKey: document(t, state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Succeeded})}
	verdict := jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Remove, Attempt: 1, State: state.Of(created)})
	require.True(t, verdict.Done)
	require.Equal(t, state.Failed, verdict.Outcome, "a server that was made is not a server that is gone")
	require.Equal(t, rkev1.JobGoneReason, verdict.Reason)
}

func TestJobEnded(t *testing.T) {
	require.False(t, jobrunner.JobEnded(job("", "")))
	require.False(t, jobrunner.JobEnded(job(batchv1.JobFailureTarget, "")), "its pod may still run")
	require.False(t, jobrunner.JobEnded(job(batchv1.JobSuspended, "")))
	require.True(t, jobrunner.JobEnded(job(batchv1.JobComplete, "")))
	require.True(t, jobrunner.JobEnded(job(batchv1.JobFailed, "")))
	undecided := job(batchv1.JobFailed, "")
	undecided.Status.Conditions[0].Status = corev1.ConditionFalse
	require.False(t, jobrunner.JobEnded(undecided))
}
