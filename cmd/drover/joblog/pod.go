package joblog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
)

// Stream copies a pod's log; with follow until the pod ends.
func Stream(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, follow bool, out io.Writer) error {
	if len(pod.Spec.Containers) == 0 {
		return fmt.Errorf("pod %s has no container, and so no log", pod.Name)
	}
	options := &corev1.PodLogOptions{Container: pod.Spec.Containers[0].Name, Follow: follow}
	log, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	defer func() { _ = log.Close() }()
	if _, err := io.Copy(out, log); err != nil {
		return fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return ctx.Err()
}

// Started reports whether a pod's containers have run, so that it has a log.
func Started(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" && len(pod.Spec.Containers) > 0
}

// interval is how often is looked whether a pod has started.
const interval = 500 * time.Millisecond

// AwaitPod waits until a pod with these labels has started. It calls say with each new reason for
// the wait. It returns an error if the pod's Job ends before.
func AwaitPod(ctx context.Context, kube kubernetes.Interface, namespace string, set labels.Set, say func(string)) (*corev1.Pod, error) {
	ofPods, ofJobs := metav1.ListOptions{LabelSelector: set.String()}, metav1.ListOptions{LabelSelector: set.String()}
	job := set[batchv1.JobNameLabel]
	if job != "" { // which need not have its pods' labels
		ofJobs = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", job).String()}
	}
	said, pending := "", "" // the pod that was there last
	seen := sets.New[string]()
	for {
		// Listing Jobs first ensures that the pods of an ended Job are in the second list. A user
		// with access to pods may lack access to Jobs.
		jobs, jobsErr := kube.BatchV1().Jobs(namespace).List(ctx, ofJobs)
		pods, err := kube.CoreV1().Pods(namespace).List(ctx, ofPods)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("waiting for a pod: %w", context.Cause(ctx))
		}
		if err != nil {
			return nil, fmt.Errorf("listing pods in namespace %s: %w", namespace, err)
		}
		if at := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool { return Started(&pod) }); at >= 0 {
			return &pods.Items[at], nil
		}
		if jobsErr == nil {
			err = ended(jobs.Items, seen)
		}
		if err != nil {
			return nil, err
		}
		text := "waiting for a pod: none was made yet"
		switch {
		case len(pods.Items) > 0:
			pending = pods.Items[0].Name
			text = "waiting for pod " + pending + ": " + pendingReason(&pods.Items[0])
		case pending != "":
			text = "pod " + pending + " was deleted before it started: waiting for another"
		case job == "": // of a machine without Jobs it is known
			text = ""
		}
		if text != said {
			said = text
			say(text)
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// ended returns an error if a Job has ended, or if a Job that was seen is gone.
func ended(jobs []batchv1.Job, seen sets.Set[string]) error {
	endings := map[string]string{}
	for name := range seen {
		endings[name] = "it was deleted"
	}
	for i := range jobs {
		seen.Insert(jobs[i].Name)
		endings[jobs[i].Name] = ending(&jobs[i])
	}
	for name, how := range endings {
		if how != "" {
			return errors.New("Job " + name + " ended before a pod of it started: " + how)
		}
	}
	return nil
}

// ending is how a Job ended; empty while it has not.
func ending(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return withMessage(cmp.Or(c.Reason, string(c.Type)), c.Message)
		}
	}
	return ""
}

// pendingReason is why a pod has not started, in Kubernetes' words.
func pendingReason(pod *corev1.Pod) string {
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if w := status.State.Waiting; w != nil && w.Reason != "" {
			return withMessage(w.Reason, w.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return withMessage(c.Reason, c.Message)
		}
	}
	return "Pending"
}

func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
