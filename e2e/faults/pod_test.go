package faults

import (
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
)

// playJobs plays the Job controller and the kubelet; it tells whether there was anything to do.
func (w *world) playJobs() bool {
	w.Helper()
	jobs := &batchv1.JobList{}
	require.NoError(w, w.admin.List(w.Context(), jobs, client.InNamespace(w.namespace)))
	played := false
	for i := range jobs.Items {
		job := &jobs.Items[i]
		switch {
		case !job.DeletionTimestamp.IsZero():
			w.collect(job)
			played = true
		case !jobrunner.JobEnded(job):
			w.runJob(job)
			played = true
		}
	}
	return played
}

// collect plays the garbage collector: the pod of a deleted Job is gone.
func (w *world) collect(job *batchv1.Job) {
	w.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), job, patch)))
}

func (w *world) runJob(job *batchv1.Job) {
	w.Helper()
	code := w.runPod(job)
	w.say("%s ended with %d", job.Name, code)
	live := &batchv1.Job{}
	err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(job), live)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return
	}
	require.NoError(w, err)
	if !live.DeletionTimestamp.IsZero() {
		w.collect(live)
		return
	}
	known := live.DeepCopy()
	now := metav1.NewTime(time.Now())
	kind, before, reason := batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded
	live.Status.StartTime = &now
	if code == operation.ExitSucceeded {
		kind, before, reason = batchv1.JobComplete, batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached
		live.Status.CompletionTime, live.Status.Succeeded = &now, 1
	}
	for _, condition := range []batchv1.JobConditionType{before, kind} {
		live.Status.Conditions = append(live.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now,
		})
	}
	require.NoError(w, w.admin.Status().Patch(w.Context(), live, client.MergeFrom(known)))
}
