package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// containerGrace is what containers get between SIGTERM and SIGKILL when
	// the node stops.
	containerGrace = 3
	sandboxTimeout = 30 * time.Second
)

// removeSandboxes stops and removes every pod of a running containerd, with
// its network and its mounts.
func removeSandboxes(ctx context.Context, l layout) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxTimeout)
	defer cancel()
	runtime, err := l.runtime(ctx)
	if err != nil {
		return err
	}
	sandboxes, err := runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("listing pods: %w", err), runtime.Close(ctx))
	}
	errs := make(chan error)
	for _, sandbox := range sandboxes {
		go func() { errs <- removeSandbox(ctx, runtime, sandbox) }()
	}
	for range sandboxes {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, runtime.Close(ctx))
}

func removeSandbox(ctx context.Context, runtime internalapi.RuntimeService, sandbox *runtimeapi.PodSandbox) error {
	containers, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandbox.Id})
	if err != nil {
		return fmt.Errorf("listing containers of pod %s: %w", sandbox.Metadata.Name, err)
	}
	for _, c := range containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if err := runtime.StopContainer(ctx, c.Id, containerGrace); err != nil {
			return fmt.Errorf("stopping container of pod %s: %w", sandbox.Metadata.Name, err)
		}
	}
	if err := runtime.StopPodSandbox(ctx, sandbox.Id); err != nil {
		return fmt.Errorf("stopping pod %s: %w", sandbox.Metadata.Name, err)
	}
	if err := runtime.RemovePodSandbox(ctx, sandbox.Id); err != nil {
		return fmt.Errorf("removing pod %s: %w", sandbox.Metadata.Name, err)
	}
	return nil
}
