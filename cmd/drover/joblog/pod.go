package joblog

import (
	"context"
	"fmt"
	"io"

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

// AwaitPod waits until a pod with these labels has started. Say is told each time the reason why it has not changes.
func AwaitPod(ctx context.Context, kube kubernetes.Interface, namespace string, set labels.Set, say func(string)) (*corev1.Pod, error) {
	pods := kube.CoreV1().Pods(namespace)
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = set.String()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = set.String()
			return pods.Watch(ctx, o)
		},
	}
	var started *corev1.Pod
	said := ""
	_, err := toolswatch.UntilWithSync(ctx, cache.ToListWatcherWithWatchListSemantics(list, kube), &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Deleted {
			return false, nil
		}
		if Started(pod) {
			started = pod
			return true, nil
		}
		if text := fmt.Sprintf("waiting for pod %s: %s", pod.Name, pendingReason(pod)); text != said {
			said = text
			say(text)
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a pod: %w", err)
	}
	return started, nil
}

// pendingReason is why a pod has not started, in Kubernetes' words.
func pendingReason(pod *corev1.Pod) string {
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		if w := status.State.Waiting; w != nil && w.Reason != "" {
			return w.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return "Pending"
}
