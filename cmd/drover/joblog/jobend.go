package joblog

import (
	"cmp"
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// jobEndedError tells that a Job ended and no pod of it ever started: there is no log to wait for.
type jobEndedError struct {
	name, how string
}

// Error implements error.
func (e *jobEndedError) Error() string {
	return fmt.Sprintf("Job %s ended before a pod of it started: %s", e.name, e.how)
}

// awaitJobEnd waits until a Job of the pods has ended without a pod. It returns nil when that can no longer be told: who may
// read pods need not be allowed to read Jobs.
func (w *podWatch) awaitJobEnd(ctx context.Context) error {
	jobs := w.kube.BatchV1().Jobs(w.namespace)
	one := metav1.ListOptions{Limit: 1}
	w.selectJobs(&one)
	if _, err := jobs.List(ctx, one); err != nil {
		return nil //nolint:nilerr // the pods are waited for all the same
	}
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			w.selectJobs(&o)
			return jobs.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w.selectJobs(&o)
			return jobs.Watch(ctx, o)
		},
	}
	var ended *jobEndedError
	_, err := toolswatch.UntilWithSync(ctx, cache.ToListWatcherWithWatchListSemantics(list, w.kube), &batchv1.Job{}, nil, func(event watch.Event) (bool, error) {
		job, ok := event.Object.(*batchv1.Job)
		if !ok {
			return false, nil
		}
		if how := ending(job, event.Type == watch.Deleted); how != "" && !w.hasStarted(ctx, job.Name) {
			ended = &jobEndedError{job.Name, how}
		}
		return ended != nil, nil
	})
	if err != nil || ended == nil {
		return nil //nolint:nilerr // the pods are waited for all the same
	}
	return ended
}

// selectJobs selects the Jobs whose pods have the labels: by name, for a Job need not have its pods' labels.
func (w *podWatch) selectJobs(o *metav1.ListOptions) {
	if name := w.set[batchv1.JobNameLabel]; name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		return
	}
	o.LabelSelector = w.set.String()
}

// hasStarted reports whether a pod of a Job has started, which may be seen later than the Job's end.
func (w *podWatch) hasStarted(ctx context.Context, job string) bool {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobNameLabel: job}})
	pods, err := w.kube.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return true
	}
	for i := range pods.Items {
		if Started(&pods.Items[i]) {
			return true
		}
	}
	return false
}

// ending is how a Job ended; empty while it has not.
func ending(job *batchv1.Job, deleted bool) string {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return withMessage(cmp.Or(c.Reason, string(c.Type)), c.Message)
		}
	}
	if deleted {
		return "it was deleted"
	}
	return ""
}
