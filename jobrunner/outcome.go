package jobrunner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// Evidence is all there is to judge one attempt by.
type Evidence struct {
	// Operation and Attempt that are judged.
	Operation state.Operation
	Attempt   int32
	// Job of the attempt; nil when it is gone.
	Job *batchv1.Job
	// Pods of the Job. They have more details than the Job, but may be gone. Pods of earlier
	// attempts may be among them: they do not count for this attempt, but no Job may start beside
	// them.
	Pods []corev1.Pod
	// State of the machine; of a probe or a scan, its result Secret read as one.
	State state.State
	// Now decides which terminating pods are overdue; if it is zero, none is.
	Now time.Time
}

// Own are the pods of this very attempt.
func (e Evidence) Own() []corev1.Pod {
	own := make([]corev1.Pod, 0, len(e.Pods))
	for i := range e.Pods {
		if of, told := e.Pods[i].Labels[rkev1.AttemptLabel]; !told || of == strconv.Itoa(int(e.Attempt)) {
			own = append(own, e.Pods[i])
		}
	}
	return own
}

// Told reports whether the state records how this attempt ended: in the pod's own result or in the
// manager's verdict.
func (e Evidence) Told() bool {
	_, told := e.own(e.State.Result)
	_, kept := e.own(e.State.Verdict)
	return told || kept
}

// own is a result if it is this attempt's.
func (e Evidence) own(document state.Document[state.Result]) (state.Result, bool) {
	result := document.Value
	return result, document.IsRead() && result.Operation == e.Operation && result.Attempt == e.Attempt
}

// Keep writes a verdict into the state: its evidence disappears with the Job, and a later judgement
// would differ.
func (e Evidence) Keep(v Verdict, secret *corev1.Secret) error {
	document, err := json.Marshal(state.Result{Operation: e.Operation, Attempt: e.Attempt, Outcome: v.Outcome, Class: v.Class, Reason: v.Reason,
		Message: v.Message, ServerMayExist: e.Operation == state.Remove || !e.State.NothingMade(), Made: v.Made, StartTime: v.Start, EndTime: v.End})
	if err != nil {
		return fmt.Errorf("encoding how the attempt ended: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[state.VerdictKey] = document
	return nil
}

// Verdict is how an attempt stands.
type Verdict struct {
	// Done is false while the Job runs; Reason and Message may then explain a delay.
	Done bool
	// Outcome, Class, Reason, Message as in Result.
	Outcome state.Outcome
	Class   string
	Reason  string
	Message string
	// Start and End of the attempt, if known.
	Start, End time.Time
	// Made is true if the attempt made a server.
	Made bool
	// Result is the pod's own result; nil if the pod left none.
	Result *state.Result
}

// OutcomeOf judges an attempt. The pod's own result takes precedence over Kubernetes' status. A
// success counts immediately, a failure only when the Job has ended, because only then another Job
// can start. A Job that was deleted has ended when none of its pods can still run.
func OutcomeOf(e Evidence) Verdict {
	result, mine := e.own(e.State.Result)
	if mine && result.Outcome == state.Succeeded {
		return fromResult(result)
	}
	if e.Job != nil && !JobEnded(e.Job) {
		return running(e)
	}
	if mine {
		return fromResult(result)
	}
	if pod := e.Outliving(); pod != nil {
		reason, message := e.Overdue(pod)
		return Verdict{Reason: cmp.Or(reason, rkev1.JobGoneReason), Message: cmp.Or(message, fmt.Sprintf("the Job was deleted, but its pod %s has not ended; if its node %s does not come back, delete the Node", pod.Name, pod.Spec.NodeName))}
	}
	if kept, ok := e.own(e.State.Verdict); ok {
		v := fromResult(kept)
		v.Result = nil
		return v
	}
	v := Verdict{Done: true, Outcome: state.Failed, Made: e.made()}
	if e.Job != nil {
		v.Start, v.End = ptr.Deref(e.Job.Status.StartTime, metav1.Time{}).Time, ptr.Deref(e.Job.Status.CompletionTime, metav1.Time{}).Time
		if failed := jobCondition(e.Job, batchv1.JobFailed); failed != nil && v.End.IsZero() {
			v.End = failed.LastTransitionTime.Time
		}
	}
	v.Reason, v.Class, v.Message = explain(e)
	if left := e.State.Result; !left.IsRead() && !left.IsAbsent() && v.Reason == rkev1.ResultMissingReason {
		v.Reason, v.Message = rkev1.ResultInvalidReason, fmt.Sprintf("the pod's result cannot be read: %v", left.Err)
	}
	return v
}

// JobEnded reports whether a Job has ended, and its pod with it.
func JobEnded(job *batchv1.Job) bool {
	return jobCondition(job, batchv1.JobComplete) != nil || jobCondition(job, batchv1.JobFailed) != nil
}

func fromResult(r state.Result) Verdict {
	return Verdict{Done: true, Outcome: r.Outcome, Class: r.Class, Reason: r.Reason, Message: r.Message,
		Start: r.StartTime, End: r.EndTime, Made: r.Made, Result: &r}
}

// made reports whether the journal records that the attempt made a server.
func (e Evidence) made() bool {
	journal := e.State.Journal.Value
	if !e.State.Journal.IsRead() || journal.Operation != e.Operation || journal.Attempt != e.Attempt {
		return false
	}
	made := journal.Phase == state.PhaseRecorded || journal.Phase == state.PhaseCreated || journal.Phase == state.PhaseBootstrapped
	return made && e.Operation == state.Create
}

// overdueSlack is how long a pod may exist after its grace period: its node's kubelet must kill it
// and report that.
const overdueSlack = time.Minute

// DueAt returns when a terminating pod is overdue; zero if the pod is not terminating or has ended.
func DueAt(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp.IsZero() || hasEnded(pod) {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(overdueSlack) // it includes the grace period
}

// Overdue explains why a pod is stuck terminating, which happens on a lost node, and how to resolve
// it. Only Kubernetes knows when the pod has certainly stopped: it then deletes the pod. Both
// results are empty for a pod that may still be running normally.
func (e Evidence) Overdue(pod *corev1.Pod) (reason, message string) {
	due := DueAt(pod)
	if due.IsZero() || e.Now.IsZero() || e.Now.Before(due) {
		return "", ""
	}
	since := *pod.DeletionTimestamp
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			since = c.LastTransitionTime
		}
	}
	node := pod.Spec.NodeName
	return rkev1.NodeSilentReason, state.Printable(fmt.Sprintf("the pod %s is stuck terminating: its node %s has been unreachable since %s. The manager starts no other Job while the pod may run. "+
		"If the node does not come back, delete the Node (kubectl delete node %s); if it is off and will come back, taint it (kubectl taint node %s %s=nodeshutdown:NoExecute)",
		pod.Name, node, since.UTC().Format(time.RFC3339), node, node, corev1.TaintNodeOutOfService), state.MaxMessage)
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Outliving is a pod, of whichever attempt, that may still run though its Job is gone: no other Job
// may start beside it.
func (e Evidence) Outliving() *corev1.Pod {
	for i := range e.Pods {
		if pod := &e.Pods[i]; e.Job == nil && !hasEnded(pod) {
			return pod
		}
	}
	return nil
}

// PodGrace is how long the Job controller may take to create a Job's pod before the manager reports
// that the pod is missing.
const PodGrace = 20 * time.Second

// lacksPod reports whether Kubernetes has created no pod for the Job within PodGrace. The Job
// controller repeats its attempts, and records an error only in events.
func (e Evidence) lacksPod() bool {
	status := e.Job.Status
	ended := ptr.Deref(status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	had := status.Active + status.Succeeded + status.Failed + ptr.Deref(status.Terminating, 0)
	if e.Now.IsZero() || e.Told() || ptr.Deref(e.Job.Spec.Suspend, false) || had > 0 || len(ended.Succeeded)+len(ended.Failed) > 0 || len(e.Own()) > 0 {
		return false
	}
	since := e.Job.CreationTimestamp.Time
	if status.StartTime != nil && status.StartTime.After(since) {
		since = status.StartTime.Time // the Job was suspended before
	}
	return e.Now.Sub(since) >= PodGrace
}

// running returns the verdict for a running Job, with the reason for a delay if there is one.
func running(e Evidence) Verdict {
	v := Verdict{Start: ptr.Deref(e.Job.Status.StartTime, metav1.Time{}).Time}
	if e.lacksPod() {
		v.Reason, v.Message = rkev1.PodNotCreatedReason, fmt.Sprintf("Kubernetes has not created a pod for the Job. A ResourceQuota, a LimitRange or an admission policy of namespace %s may reject the pod; "+
			"the Job's events contain the error", e.Job.Namespace)
	}
	own := e.Own()
	for i := range own {
		if reason, message := HeldUp(&own[i]); reason != "" {
			v.Reason, v.Message = reason, message
		}
		if reason, message := e.Overdue(&own[i]); reason != "" {
			v.Reason, v.Message = reason, message
		}
	}
	return v
}

// explain finds out why a Job ended when its pod did not say so.
func explain(e Evidence) (reason, class, message string) {
	own := e.Own()
	for i := range own {
		if reason, class, message = explainPod(&own[i]); reason != "" {
			return reason, class, message
		}
	}
	if e.Job == nil {
		return rkev1.JobGoneReason, rkev1.ClassTransient, "the Job was deleted before its pod wrote a result; its log is lost"
	}
	failed := jobCondition(e.Job, batchv1.JobFailed)
	if failed != nil && failed.Reason == batchv1.JobReasonDeadlineExceeded {
		// Jobs of earlier managers had a deadline of their own.
		message = "the Job did not end within its deadline"
		for i := range own {
			if _, waited := HeldUp(&own[i]); waited != "" {
				message += ": " + waited
				break
			}
		}
		return rkev1.DeadlineReason, rkev1.ClassTransient, message
	}
	if failed != nil {
		return rkev1.ResultMissingReason, rkev1.ClassUnknown, state.Printable("the pod ended without a result: "+failed.Message, state.MaxMessage)
	}
	return rkev1.ResultMissingReason, rkev1.ClassUnknown, "the pod ended without an error and without a result"
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
