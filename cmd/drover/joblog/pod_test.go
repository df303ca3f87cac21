package joblog_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/cmd/drover/joblog"
)

// pod is a pod of the Job create-1.
func pod(phase corev1.PodPhase, waiting string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{"job": "create-1"}}}
	p.Spec.Containers = []corev1.Container{{Name: "machine"}}
	p.Status.Phase = phase
	if waiting != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
	}
	return p
}

func TestAwaitPod(t *testing.T) {
	kube := fake.NewClientset(pod(corev1.PodPending, "ImagePullBackOff"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	said := make(chan string, 10)
	go func() {
		<-said
		_, _ = kube.CoreV1().Pods("shop").UpdateStatus(ctx, pod(corev1.PodRunning, ""), metav1.UpdateOptions{})
	}()
	started, err := joblog.AwaitPod(ctx, kube, "shop", labels.Set{"job": "create-1"}, func(text string) {
		require.Equal(t, "waiting for pod p: ImagePullBackOff", text)
		said <- text
	})
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, started.Status.Phase)
	var out bytes.Buffer
	require.NoError(t, joblog.Stream(ctx, kube, started, true, &out))
	require.Equal(t, "fake logs", out.String())
}

func TestAwaitPodEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := joblog.AwaitPod(ctx, fake.NewClientset(), "shop", labels.Set{"job": "create-1"}, func(string) {})
	require.ErrorContains(t, err, "waiting for a pod")
}
