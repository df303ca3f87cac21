package faults

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
)

// podDeadline stands for the Job's: what hangs longer is told to stop.
const podDeadline = 15 * time.Second

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
	require.NoError(w, w.admin.Status().Update(w.Context(), live))
}

// runPod runs what the Job's pod runs and returns its exit code; 137 when it was killed.
func (w *world) runPod(job *batchv1.Job) int {
	w.Helper()
	dir := w.TempDir()
	request := &corev1.Secret{}
	err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(job), request)
	require.NoError(w, err, "the request Secret of a Job that has not run")
	requestDir := filepath.Join(dir, "request")
	require.NoError(w, os.Mkdir(requestDir, 0o700))
	for key, value := range request.Data {
		require.NoError(w, os.WriteFile(filepath.Join(requestDir, key), value, 0o600))
	}
	self, err := os.Executable()
	require.NoError(w, err)
	ctx, cancel := context.WithTimeout(w.Context(), podDeadline)
	defer cancel()
	w.cancelPod = cancel
	code := 137
	done := make(chan struct{})
	go func() {
		defer close(done)
		code = operation.Run(ctx, operation.Options{
			Operation: jobrunner.Operation(job.Spec.Template.Spec.Containers[0].Command[1]), RequestDir: requestDir,
			Home: filepath.Join(dir, "home"), TempDir: filepath.Join(dir, "tmp"), Self: self, Env: os.Environ(),
			Core: w.core, Output: io.Discard, TerminationLog: filepath.Join(dir, "termination"),
		})
	}()
	<-done
	w.cancelPod = nil
	if code == 137 {
		w.say("the pod was killed")
		w.cure()
		w.podGate.killed = nil
	}
	return code
}

func (w *world) core() (corev1client.CoreV1Interface, error) {
	c, err := kubernetes.NewForConfigAndClient(w.lab.config, &http.Client{Transport: w.podGate})
	if err != nil {
		return nil, err
	}
	return c.CoreV1(), nil
}
