package explain

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Reasons of pods and Jobs that Drover does not define: most are Kubernetes' own, some are ours for
// problems that Kubernetes does not name.
const (
	podUnschedulable = "Unschedulable"
	podNotMade       = "FailedCreate"
	podNotMounted    = "FailedMount"
	podNoSandbox     = "FailedCreatePodSandBox"
	jobNoAccount     = "ServiceAccountMissing"
	jobMissing       = "JobMissing"
	jobSuspended     = "Suspended"
	jobInFallback    = "InRefuge"
)

// podAdvice maps the reason why a Job's pod does not run to advice.
var podAdvice = map[string]own{
	rkev1.NodeSilentReason: {next: []string{"See the state of the node: kubectl get node {node}", "If the node does not come back: kubectl delete node {node}",
		"If the node is off and will come back: kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}},
	podUnschedulable: {says: "The Job's pod does not fit on any node of the management cluster.",
		next: []string{"Free resources or add nodes, or correct the node selector and tolerations of Jobs in the manager's settings", nextPod}},
	"ImagePullBackOff":  imagePull,
	"ErrImagePull":      imagePull,
	"ErrImageNeverPull": imagePull,
	"InvalidImageName":  imagePull,
	"ImageInspectError": imagePull,
	// A registry that is down, and an image whose signature does not fit.
	"RegistryUnavailable":       imagePull,
	"SignatureValidationFailed": imagePull,
	"CreateContainerConfigError": {says: "The Job's container cannot be set up.",
		next: []string{nextPod, "The next attempt creates a missing Secret again"}},
	"CreateContainerError": {says: "The Job's container cannot be created.", next: []string{nextPod}},
	"RunContainerError":    {says: "The Job's container cannot be started.", next: []string{nextPod}},
	"OOMKilled": {says: "The Job's container exceeded its memory limit.",
		next: []string{"Raise the memory limit that the manager gives Jobs", nextLogsPod}},
	"Evicted": {says: "The Job's pod was evicted from its node.",
		next: []string{"See the node's resources: kubectl describe node {node}"}},
	"DeadlineExceeded": {says: "The Job exceeded its deadline.",
		next: []string{nextLogsPod, "A slow cloud may need a longer deadline in the manager's settings"}},
	podNotMade: {says: "The management cluster rejects the Job's pod.",
		next: []string{"The message above names the policy or quota: correct it for namespace {podns}", "Drover's pods comply with the restricted Pod Security Standard"}},
	jobNoAccount: {says: "Kubernetes cannot create the Job's pod, because its ServiceAccount was deleted (by a user or by a foreground deletion).",
		next: []string{"Drover creates it again, and the pod starts within minutes. If not, delete the Job, which has done nothing yet, and Drover creates both again: kubectl -n {podns} delete job {job}", nextManager}},
	podNotMounted: {says: "A volume of the Job's pod cannot be mounted.",
		next: []string{nextPod}},
	podNoSandbox: {says: "The node cannot set up the Job's pod because of its network or container runtime.",
		next: []string{nextPod, "See the node's conditions and events: kubectl describe node {node}"}},
	jobSuspended: {says: "The Job is suspended by a queue or by a user.",
		next: []string{"If no queue resumes it, resume the Job: kubectl -n {podns} patch job {job} --type merge -p '{\"spec\":{\"suspend\":false}}'"}},
	jobInFallback: {says: "The machine's namespace is being deleted and accepts no new Jobs. The Job {job} removes the server from namespace {podns}.",
		next: []string{"Look at the Job: kubectl -n {podns} describe job {job}", "Read its log: kubectl -n {podns} logs job/{job} --all-containers"}},
	jobMissing: {says: "The Job {job} was running and does not exist any more. It was deleted.",
		next: []string{"Drover creates a new Job. If it does not within a minute: drover retry {name} -n {ns}", nextManager}},
}

const nextLogsPod = "Read its log: kubectl -n {podns} logs {pod} --all-containers"

var imagePull = own{says: "The image of the Job's pod cannot be pulled.",
	next: []string{"Correct the image, registry or pull secret that the manager gives Jobs", nextPod}}

// reportPod reports why a Job's pod does not do its work.
func (r *Report) reportPod(reason, message string, pods []corev1.Pod, w advice.Words) {
	if len(pods) > 0 {
		w["pod"], w["node"] = pods[0].Name, pods[0].Spec.NodeName
	}
	r.Blocker.Reason, r.Blocker.Message = reason, facts.Clean(message)
	r.advise(podAdvice[reason], w)
	r.Verdict = appendNew(r.Verdict, r.Blocker.Message)
}

// podTrouble returns why the newest Job's pod does not do its work; the reason is empty if there is
// no problem.
func podTrouble(jobs []batchv1.Job, pods []corev1.Pod, events []corev1.Event) (reason, message string) {
	if len(pods) == 0 {
		return jobTrouble(jobs, events)
	}
	pod := &pods[0]
	if _, known := podAdvice[pod.Status.Reason]; known {
		return pod.Status.Reason, pod.Status.Message
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return podUnschedulable, c.Message
		}
	}
	statuses := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, status := range statuses {
		if w := status.State.Waiting; w != nil {
			if _, known := podAdvice[w.Reason]; known {
				return w.Reason, w.Message
			}
		}
		if t := status.State.Terminated; t != nil && t.Reason == "OOMKilled" {
			return t.Reason, "container " + status.Name + " was killed"
		}
	}
	if pod.Status.Phase == corev1.PodPending {
		return eventTrouble(events, string(pod.UID), podNotMounted, podNoSandbox)
	}
	return "", ""
}

// jobTrouble is why a Job has no pod.
func jobTrouble(jobs []batchv1.Job, events []corev1.Event) (reason, message string) {
	if len(jobs) == 0 {
		return "", ""
	}
	for _, c := range jobs[0].Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		if c.Type == batchv1.JobSuspended {
			return jobSuspended, c.Message
		}
		if _, known := podAdvice[c.Reason]; known {
			return c.Reason, c.Message
		}
	}
	reason, message = eventTrouble(events, string(jobs[0].UID), podNotMade)
	if strings.Contains(message, "error looking up service account") {
		reason = jobNoAccount
	}
	return reason, message
}

// eventTrouble returns the newest event of an object with one of the reasons; both results are
// empty without such an event.
func eventTrouble(events []corev1.Event, uid string, wanted ...string) (reason, message string) {
	for _, event := range slices.Backward(events) {
		if string(event.InvolvedObject.UID) == uid && slices.Contains(wanted, event.Reason) {
			return event.Reason, event.Message
		}
	}
	return "", ""
}
