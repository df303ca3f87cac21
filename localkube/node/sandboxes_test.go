package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime has one pod with three containers; it records what is asked and
// fails the call named in fail.
type fakeRuntime struct {
	internalapi.RuntimeService
	fail  string
	calls []string
}

func (f *fakeRuntime) did(verb, what string) error {
	f.calls = append(f.calls, verb+" "+what)
	if f.fail == verb {
		return errors.New("boom")
	}
	return nil
}

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return []*runtimeapi.Container{
		{Id: "a", State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		{Id: "b", State: runtimeapi.ContainerState_CONTAINER_EXITED},
		{Id: "c", State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}, f.did("list", filter.PodSandboxId)
}

func (f *fakeRuntime) StopContainer(_ context.Context, id string, _ int64) error {
	return f.did("stop", id)
}

func (f *fakeRuntime) StopPodSandbox(_ context.Context, id string) error {
	return f.did("stop-pod", id)
}

func (f *fakeRuntime) RemovePodSandbox(_ context.Context, id string) error {
	return f.did("remove-pod", id)
}

func TestRemoveSandbox(t *testing.T) {
	for fail, want := range map[string]struct {
		calls []string
		err   string
	}{
		"":           {[]string{"list p", "stop a", "stop c", "stop-pod p", "remove-pod p"}, ""},
		"list":       {[]string{"list p"}, "listing containers of pod web: boom"},
		"stop":       {[]string{"list p", "stop a"}, "stopping container of pod web: boom"},
		"stop-pod":   {[]string{"list p", "stop a", "stop c", "stop-pod p"}, "stopping pod web: boom"},
		"remove-pod": {[]string{"list p", "stop a", "stop c", "stop-pod p", "remove-pod p"}, "removing pod web: boom"},
	} {
		t.Run("fails to "+fail, func(t *testing.T) {
			fake := &fakeRuntime{fail: fail}
			err := removeSandbox(t.Context(), fake, &runtimeapi.PodSandbox{Id: "p", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web"}})
			if want.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, want.err)
			}
			require.Equal(t, want.calls, fake.calls)
		})
	}
}

func TestContainerd_that_does_not_serve(t *testing.T) {
	l := newLayout(t)
	require.ErrorContains(t, removeSandboxes(t.Context(), l), "looking for containerd's socket")

	boom := errors.New("containerd ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	_, err := l.awaitContainerd(ctx)
	require.ErrorIs(t, err, boom, "the cause is what the user must see")
	require.ErrorContains(t, err, "waiting for containerd")

	late, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	_, err = l.awaitContainerd(late)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestRemoveLeftSandboxes_without_pods(t *testing.T) {
	l := newLayout(t)
	require.NoError(t, removeLeftSandboxes(t.Context(), l))
	require.NoFileExists(t, l.containerdConfig())
}
