package joblog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/cmd/drover/joblog"
)

// jobLabels are the labels of the pods of the Job create-1.
var jobLabels = labels.Set{batchv1.JobNameLabel: "create-1"}

// pod is a pod of the Job create-1.
func pod(phase corev1.PodPhase, waiting string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: jobLabels}}
	p.Spec.Containers = []corev1.Container{{Name: "machine"}}
	p.Status.Phase = phase
	if waiting != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
	}
	return p
}

// jobOf is the Job create-1, ended with a condition unless that is empty.
func jobOf(kind batchv1.JobConditionType, reason, message string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "create-1"}}
	if kind != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
	}
	return j
}

// story is a wait for a pod: after each thing that is said, the next change happens.
type story struct {
	kube    *fake.Clientset
	changes []func(context.Context, *fake.Clientset) error

	mutex sync.Mutex
	said  []string
	errs  []error
}

func newStory(objects ...runtime.Object) *story {
	return &story{kube: fake.NewClientset(objects...)}
}

func (s *story) then(change func(context.Context, *fake.Clientset) error) *story {
	s.changes = append(s.changes, change)
	return s
}

func (s *story) thenPod(p *corev1.Pod) *story {
	return s.then(func(ctx context.Context, kube *fake.Clientset) error {
		_, err := kube.CoreV1().Pods("shop").UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

func (s *story) thenNewPod(p *corev1.Pod) *story {
	return s.then(func(ctx context.Context, kube *fake.Clientset) error {
		_, err := kube.CoreV1().Pods("shop").Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

func (s *story) thenNoPod() *story {
	return s.then(func(ctx context.Context, kube *fake.Clientset) error {
		return kube.CoreV1().Pods("shop").Delete(ctx, "p", metav1.DeleteOptions{})
	})
}

func (s *story) thenJob(j *batchv1.Job) *story {
	return s.then(func(ctx context.Context, kube *fake.Clientset) error {
		_, err := kube.BatchV1().Jobs("shop").UpdateStatus(ctx, j, metav1.UpdateOptions{})
		return err
	})
}

// run waits, and returns what was said besides.
func (s *story) run(t *testing.T) (*corev1.Pod, []string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	started, err := joblog.AwaitPod(ctx, s.kube, "shop", jobLabels, func(text string) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.said = append(s.said, text)
		if len(s.changes) > 0 {
			change := s.changes[0]
			s.changes = s.changes[1:]
			s.errs = append(s.errs, change(ctx, s.kube))
		}
	})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	require.NoError(t, errors.Join(s.errs...))
	require.Empty(t, s.changes, "all happened")
	return started, s.said, err
}

func TestAwaitPod(t *testing.T) {
	unschedulable := pod(corev1.PodPending, "")
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	image := pod(corev1.PodPending, "ErrImagePull")
	image.Status.ContainerStatuses[0].State.Waiting.Message = "not found"
	for name, c := range map[string]struct {
		story *story
		phase corev1.PodPhase
		said  []string
	}{
		"runs already": {newStory(pod(corev1.PodRunning, "")), corev1.PodRunning, nil},
		"has ended":    {newStory(jobOf(batchv1.JobFailed, "BackoffLimitExceeded", ""), pod(corev1.PodFailed, "")), corev1.PodFailed, nil},
		"starts": {newStory(pod(corev1.PodPending, "ContainerCreating")).thenPod(pod(corev1.PodRunning, "")), corev1.PodRunning,
			[]string{"waiting for pod p: ContainerCreating"}},
		"is made": {newStory(jobOf("", "", "")).thenNewPod(pod(corev1.PodPending, "")).thenPod(pod(corev1.PodRunning, "")), corev1.PodRunning,
			[]string{"waiting for a pod: none was made yet", "waiting for pod p: Pending"}},
		"each reason once": {newStory(unschedulable).thenPod(pod(corev1.PodPending, "ContainerCreating")).thenPod(image).thenPod(pod(corev1.PodSucceeded, "")), corev1.PodSucceeded,
			[]string{"waiting for pod p: Unschedulable: 0/1 nodes are available", "waiting for pod p: ContainerCreating", "waiting for pod p: ErrImagePull: not found"}},
		"another in its place": {newStory(jobOf("", "", ""), pod(corev1.PodPending, "ErrImagePull")).thenNoPod().thenNewPod(pod(corev1.PodRunning, "")), corev1.PodRunning,
			[]string{"waiting for pod p: ErrImagePull", "pod p was deleted before it started: waiting for another"}},
	} {
		t.Run(name, func(t *testing.T) {
			started, said, err := c.story.run(t)
			require.NoError(t, err)
			require.Equal(t, c.phase, started.Status.Phase)
			require.Equal(t, c.said, said)
		})
	}
}

// TestAwaitPodThatNeverStarts: waiting ends with the Job, or it would never.
func TestAwaitPodThatNeverStarts(t *testing.T) {
	for name, c := range map[string]struct {
		story *story
		err   string
	}{
		"its time is up": {newStory(jobOf("", "", ""), pod(corev1.PodPending, "ErrImagePull")).thenJob(jobOf(batchv1.JobFailed, "DeadlineExceeded", "Job was active longer than specified deadline")),
			"Job create-1 ended before a pod of it started: DeadlineExceeded: Job was active longer than specified deadline"},
		"no reason": {newStory(jobOf("", "", "")).thenJob(jobOf(batchv1.JobFailed, "", "")),
			"Job create-1 ended before a pod of it started: Failed"},
		"ended before": {newStory(jobOf(batchv1.JobFailed, "BackoffLimitExceeded", "")),
			"Job create-1 ended before a pod of it started: BackoffLimitExceeded"},
		"deleted": {newStory(jobOf("", "", ""), pod(corev1.PodPending, "ErrImagePull")).then(func(ctx context.Context, kube *fake.Clientset) error {
			return kube.BatchV1().Jobs("shop").Delete(ctx, "create-1", metav1.DeleteOptions{})
		}), "Job create-1 ended before a pod of it started: it was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			started, _, err := c.story.run(t)
			require.EqualError(t, err, c.err)
			require.Nil(t, started)
		})
	}
}

// TestAwaitPodOfAJobThatCannotBeRead: who may read pods only still sees their log.
func TestAwaitPodOfAJobThatCannotBeRead(t *testing.T) {
	s := newStory(pod(corev1.PodPending, "ContainerCreating")).thenPod(pod(corev1.PodRunning, ""))
	s.kube.PrependReactor("list", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("jobs are forbidden")
	})
	started, _, err := s.run(t)
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, started.Status.Phase)
}

// TestAwaitPodsThatMayNotBeRead: what is forbidden is told, and not tried for ever.
func TestAwaitPodsThatMayNotBeRead(t *testing.T) {
	s := newStory(jobOf("", "", ""))
	s.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New(`User "alice" cannot list`))
	})
	_, said, err := s.run(t)
	require.EqualError(t, err, `listing pods in namespace shop: pods is forbidden: User "alice" cannot list`)
	require.True(t, apierrors.IsForbidden(err))
	require.Empty(t, said)
}

func TestAwaitPodEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := joblog.AwaitPod(ctx, fake.NewClientset(), "shop", jobLabels, func(string) { cancel() })
	require.ErrorContains(t, err, "waiting for a pod: ")
	_, err = joblog.AwaitPod(ctx, fake.NewClientset(), "shop", jobLabels, func(string) {})
	require.ErrorContains(t, err, "waiting for a pod: ")
}

func TestStarted(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		"": false, corev1.PodPending: false, corev1.PodRunning: true, corev1.PodSucceeded: true, corev1.PodFailed: true, corev1.PodUnknown: true,
	} {
		require.Equal(t, want, joblog.Started(pod(phase, "")), phase)
	}
	require.False(t, joblog.Started(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}), "no container, no log")
}
