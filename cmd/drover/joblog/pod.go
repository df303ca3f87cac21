package joblog

import (
	"context"
	"errors"
	"fmt"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
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

// AwaitPod waits until a pod with these labels has started. Say is told each time the reason why it has not changes. It is an
// error when the pod's Job ends before.
func AwaitPod(ctx context.Context, kube kubernetes.Interface, namespace string, set labels.Set, say func(string)) (*corev1.Pod, error) {
	pods := podWatch{kube: kube, namespace: namespace, set: set, say: say}
	// A watch would try for ever what is forbidden.
	if _, err := kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: set.String(), Limit: 1}); err != nil {
		return nil, fmt.Errorf("listing pods in namespace %s: %w", namespace, err)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := pods.awaitJobEnd(waiting); err != nil {
			cancel(err)
		}
	}()
	started, err := pods.awaitStart(waiting)
	cancel(nil)
	<-ended
	if cause, ok := errors.AsType[*jobEndedError](context.Cause(waiting)); ok && started == nil {
		return nil, cause
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for a pod: %w", err)
	}
	return started, nil
}

// podWatch waits for pods with labels.
type podWatch struct {
	kube      kubernetes.Interface
	namespace string
	set       labels.Set
	say       func(string)
	said      string
}

func (w *podWatch) awaitStart(ctx context.Context) (*corev1.Pod, error) {
	pods := w.kube.CoreV1().Pods(w.namespace)
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = w.set.String()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = w.set.String()
			return pods.Watch(ctx, o)
		},
	}
	var started *corev1.Pod
	none := func(store cache.Store) (bool, error) {
		// Of a machine without Jobs it is known.
		if len(store.List()) == 0 && w.set[batchv1.JobNameLabel] != "" {
			w.tell("waiting for a pod: none was made yet")
		}
		return false, nil
	}
	_, err := toolswatch.UntilWithSync(ctx, cache.ToListWatcherWithWatchListSemantics(list, w.kube), &corev1.Pod{}, none, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*corev1.Pod)
		switch {
		case !ok:
		case event.Type == watch.Deleted:
			w.tell(fmt.Sprintf("pod %s was deleted before it started: waiting for another", pod.Name))
		case Started(pod):
			started = pod
		default:
			w.tell(fmt.Sprintf("waiting for pod %s: %s", pod.Name, pendingReason(pod)))
		}
		return started != nil, nil
	})
	return started, err
}

// tell says what was not said last.
func (w *podWatch) tell(text string) {
	if text != w.said {
		w.said = text
		w.say(text)
	}
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
