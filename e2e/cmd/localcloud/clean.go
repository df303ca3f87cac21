package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/e2e/cloud"
)

const (
	// stopTimeout is how long a running cloud may take to stop.
	stopTimeout = time.Minute
	stopEvery   = 100 * time.Millisecond
)

// clean stops the cloud that runs from the directory, if any, and waits for other users of the
// directory.
func clean(ctx context.Context, stateDir string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, stopEvery, stopTimeout, true, func(ctx context.Context) (bool, error) {
		if last = cloud.Clean(ctx, stateDir); !errors.Is(last, cloud.ErrRunning) {
			return true, last
		}
		_, _ = cloud.Ask(ctx, stateDir, "stop") // one that has just started, or is about to end, does not answer
		return false, nil
	})
	if errors.Is(last, cloud.ErrRunning) {
		return fmt.Errorf("stopping the running cloud: %w: %w", err, last)
	}
	return err
}
