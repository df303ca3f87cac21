package explain

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// troubleCase is a Job, its pod and their events, and what keeps the pod from its work.
type troubleCase struct {
	job             *batchv1.Job
	pod             *corev1.Pod
	events          []corev1.Event
	reason, message string
}

func TestPodTrouble(t *testing.T) {
	for name, cases := range map[string]map[string]troubleCase{"pod": podTroubles(), "Job": jobTroubles(), "container": containerTroubles()} {
		for of, c := range cases {
			t.Run(name+"/"+of, func(t *testing.T) {
				var jobs []batchv1.Job
				var pods []corev1.Pod
				if c.job != nil {
					c.job.UID = "job"
					jobs = []batchv1.Job{*c.job}
				}
				if c.pod != nil {
					c.pod.UID = "pod"
					pods = []corev1.Pod{*c.pod}
				}
				reason, message := podTrouble(jobs, pods, c.events)
				require.Equal(t, c.reason, reason)
				require.Equal(t, c.message, message)
				if reason != "" {
					require.Contains(t, podAdvice, reason, "what is found has advice")
				}
			})
		}
	}
}

func eventOf(uid types.UID, reason, message string) corev1.Event {
	return corev1.Event{InvolvedObject: corev1.ObjectReference{UID: uid}, Reason: reason, Message: message}
}

func podIn(phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
}

func podTroubles() map[string]troubleCase {
	scheduled := func(status corev1.ConditionStatus, message string) *corev1.Pod {
		pod := podIn(corev1.PodPending)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.PodScheduled, Status: status, Reason: "Unschedulable", Message: message}}
		return pod
	}
	return map[string]troubleCase{
		"none":          {},
		"runs":          {pod: podIn(corev1.PodRunning)},
		"unschedulable": {pod: scheduled(corev1.ConditionFalse, "0/1 nodes"), reason: "Unschedulable", message: "0/1 nodes"},
		"scheduled":     {pod: scheduled(corev1.ConditionTrue, "")},
		"evicted": {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}},
			reason: "Evicted", message: "low on memory"},
		"past its deadline":  {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}}, reason: "DeadlineExceeded"},
		"some other reason":  {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeShutdown"}}},
		"no volume":          {pod: podIn(corev1.PodPending), events: []corev1.Event{eventOf("pod", "FailedMount", "secret not found")}, reason: "FailedMount", message: "secret not found"},
		"of another pod":     {pod: podIn(corev1.PodPending), events: []corev1.Event{eventOf("other", "FailedMount", "secret not found")}},
		"no volume any more": {pod: podIn(corev1.PodRunning), events: []corev1.Event{eventOf("pod", "FailedMount", "secret not found")}},
		"the newest event": {pod: podIn(corev1.PodPending), events: []corev1.Event{eventOf("pod", "FailedMount", "first"), eventOf("pod", "FailedCreatePodSandBox", "then"), eventOf("pod", "Pulling", "")},
			reason: "FailedCreatePodSandBox", message: "then"},
	}
}

func jobTroubles() map[string]troubleCase {
	job := func(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) *batchv1.Job {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: status, Reason: reason, Message: message}}}}
	}
	return map[string]troubleCase{
		"no pod yet":  {job: &batchv1.Job{}},
		"pod refused": {job: &batchv1.Job{}, events: []corev1.Event{eventOf("job", "FailedCreate", "exceeded quota")}, reason: "FailedCreate", message: "exceeded quota"},
		"no account": {job: &batchv1.Job{}, events: []corev1.Event{eventOf("job", "FailedCreate", `pods "m-rm-1-x" is forbidden: error looking up service account ns/m-machine: serviceaccount "m-machine" not found`)},
			reason: "ServiceAccountMissing", message: `pods "m-rm-1-x" is forbidden: error looking up service account ns/m-machine: serviceaccount "m-machine" not found`},
		"another's":      {job: &batchv1.Job{}, events: []corev1.Event{eventOf("machine", "FailedCreate", "exceeded quota")}},
		"suspended":      {job: job(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended"), reason: "Suspended", message: "Job suspended"},
		"resumed":        {job: job(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "")},
		"past its time":  {job: job(batchv1.JobFailed, corev1.ConditionTrue, "DeadlineExceeded", "too long"), reason: "DeadlineExceeded", message: "too long"},
		"failed anyhow":  {job: job(batchv1.JobFailed, corev1.ConditionTrue, "BackoffLimitExceeded", "")},
		"has a pod":      {job: job(batchv1.JobSuspended, corev1.ConditionTrue, "", ""), pod: podIn(corev1.PodRunning)},
		"refused before": {job: &batchv1.Job{}, pod: podIn(corev1.PodPending), events: []corev1.Event{eventOf("job", "FailedCreate", "exceeded quota")}},
	}
}

func containerTroubles() map[string]troubleCase {
	waits := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}
	}
	ended := func(name, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason}}}
	}
	cases := map[string]troubleCase{
		"being made":         {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("ContainerCreating")}}}},
		"waits for another":  {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits("PodInitializing")}}}},
		"failed by itself":   {pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("machine", "Error")}}}},
		"the first of them":  {pod: &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended("fetch", "OOMKilled")}, ContainerStatuses: []corev1.ContainerStatus{waits("ErrImagePull")}}}, reason: "OOMKilled", message: "container fetch was killed"},
		"no longer the init": {pod: &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{ended("fetch", "Completed")}, ContainerStatuses: []corev1.ContainerStatus{waits("ErrImagePull")}}}, reason: "ErrImagePull", message: "m"},
	}
	for _, reason := range []string{"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"} {
		cases[reason] = troubleCase{pod: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waits(reason)}}}, reason: reason, message: "m"}
	}
	return cases
}

func TestStepsOfConditions(t *testing.T) {
	of := func(status metav1.ConditionStatus, reason string) StepState {
		return newStep("CreateJob", &metav1.Condition{Status: status, Reason: reason}).State
	}
	require.Equal(t, StepPending, newStep("CreateJob", nil).State)
	require.Equal(t, StepDone, of(metav1.ConditionTrue, "JobSucceeded"))
	require.Equal(t, StepWaiting, of(metav1.ConditionUnknown, "AttemptsExhausted"))
	require.Equal(t, StepWaiting, of(metav1.ConditionFalse, "WaitingForRetry"))
	require.Equal(t, StepWaiting, of(metav1.ConditionFalse, "PodEvicted"), "a reason of a Job")
	require.Equal(t, StepWaiting, of(metav1.ConditionFalse, "LookupFailed"), "a reason of a pod's own")
	require.Equal(t, StepFailed, of(metav1.ConditionFalse, "AttemptsExhausted"))
	require.Equal(t, StepFailed, of(metav1.ConditionFalse, "FromTheFuture"))
	require.Nil(t, newStep("Ready", &metav1.Condition{}).Since, "no time is better than the year 1")
}

func TestFirstReached(t *testing.T) {
	steps := func(states ...StepState) []Step {
		var list []Step
		for _, state := range states {
			list = append(list, Step{Name: string(rune('a' + len(list))), State: state})
		}
		return list
	}
	require.Nil(t, firstReached(nil))
	require.Nil(t, firstReached(steps(StepDone, StepDone)))
	require.Equal(t, "b", firstReached(steps(StepDone, StepPending)).Name)
	require.Equal(t, "c", firstReached(steps(StepDone, StepPending, StepFailed)).Name, "one that was reached says more than one that was not")
	require.Equal(t, "a", firstReached(steps(StepWaiting, StepFailed)).Name)
}
