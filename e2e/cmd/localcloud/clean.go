package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/e2e/cloud"
)

const (
	// stopTimeout is how long a running cloud may take to stop.
	stopTimeout = time.Minute
	stopEvery   = 100 * time.Millisecond
	// lockFile is what a running cloud holds in its state directory.
	lockFile = "lock"
)

// clean stops the cloud that runs from the directory, if one does, and waits for whoever else has the directory.
func clean(ctx context.Context, stateDir string, stop func(pid int) error) error {
	ticker := time.NewTicker(stopEvery)
	defer ticker.Stop()
	for stopped := false; ; {
		err := cloud.Clean(ctx, stateDir)
		if !errors.Is(err, cloud.ErrRunning) {
			return err
		}
		endpoints, readErr := cloud.ReadEndpoints(stateDir)
		if !stopped && readErr == nil && holds(endpoints.PID, filepath.Join(stateDir, lockFile)) {
			if err := stop(endpoints.PID); err != nil {
				return fmt.Errorf("stopping the running cloud: %w", err)
			}
			stopped = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopping the running cloud: %w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// holds reports whether the process has the file open. A process id that was
// written down may be another process's by now, and that one is not to be stopped.
func holds(pid int, path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil || pid <= 1 {
		return false
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return false
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, entry := range open {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && target == path {
			return true
		}
	}
	return false
}
