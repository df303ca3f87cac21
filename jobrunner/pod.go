package jobrunner

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// stuck are the reasons for which a container waits that do not pass by themselves.
var stuck = map[string]string{
	"ErrImagePull":               rkev1.ImageReason,
	"ImagePullBackOff":           rkev1.ImageReason,
	"InvalidImageName":           rkev1.ImageReason,
	"ErrImageNeverPull":          rkev1.ImageReason,
	"RegistryUnavailable":        rkev1.ImageReason,
	"ImageInspectError":          rkev1.ImageReason,
	"CreateContainerConfigError": rkev1.PodPendingReason,
	"CreateContainerError":       rkev1.PodPendingReason,
	"RunContainerError":          rkev1.PodPendingReason,
}

// HeldUp returns why a pod does not run yet, or empty strings.
func HeldUp(pod *corev1.Pod) (reason, message string) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil || stuck[waiting.Reason] == "" {
			continue
		}
		return stuck[waiting.Reason], state.Printable(fmt.Sprintf("the pod %s cannot start (%s): %s", pod.Name, waiting.Reason, waiting.Message), state.MaxMessage)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return rkev1.PodPendingReason, state.Printable(fmt.Sprintf("the pod %s is not scheduled: %s", pod.Name, c.Message), state.MaxMessage)
		}
	}
	return "", ""
}

// explainPod returns why a pod ended without its own result.
func explainPod(pod *corev1.Pod) (reason, class, message string) {
	switch pod.Status.Reason {
	case "Evicted":
		return rkev1.EvictedReason, rkev1.ClassTransient, state.Printable("the pod was evicted from its node: "+pod.Status.Message, state.MaxMessage)
	case rkev1.DeadlineReason:
		_, waited := HeldUp(pod)
		if waited != "" {
			waited = ": " + waited
		}
		return rkev1.DeadlineReason, rkev1.ClassTransient, "the Job's pod did not end within its deadline" + waited
	case "NodeLost", "NodeShutdown", "Terminated":
		return rkev1.NodeLostReason, rkev1.ClassTransient, state.Printable("the pod's node was lost: "+pod.Status.Message, state.MaxMessage)
	}
	for i, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended := status.State.Terminated
		if ended != nil && ended.Reason == "OOMKilled" {
			// Not by chance in a probe: only the driver can have used so much memory, and would do
			// so again.
			if i < len(pod.Status.InitContainerStatuses) {
				return rkev1.OutOfMemoryReason, rkev1.ClassInvalid, "the driver exceeded the memory limit of its container: do not use it, or raise the manager's setting for the Job's resources"
			}
			return rkev1.OutOfMemoryReason, rkev1.ClassUnknown, "the pod exceeded its memory limit: raise the manager's setting for the Job's resources"
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return rkev1.NodeLostReason, rkev1.ClassTransient, state.Printable("the pod was disrupted: "+c.Message, state.MaxMessage)
		}
	}
	// A container's process was killed: it does not exit with this code on its own.
	if slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.State.Terminated != nil && status.State.Terminated.ExitCode == exitKilled
	}) {
		return rkev1.KilledReason, rkev1.ClassTransient, "the pod was killed (SIGKILL) before it could write a result. Its log is lost unless the pod still exists. If it happens again, check its node"
	}
	return "", "", ""
}

// exitKilled is the exit code that shells and all container runtimes report for signal 9.
const exitKilled = 128 + 9
