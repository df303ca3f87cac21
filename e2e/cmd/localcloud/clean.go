package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/e2e/cloud/admin"
)

// stopTimeout is how long a running cloud may take to stop.
const stopTimeout = time.Minute

func newCleanCommand(flags *shared) *cobra.Command {
	return &cobra.Command{
		Use: "clean", Short: "Stop the cloud and remove its every trace, also after a crash", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), stopTimeout)
			defer cancel()
			return clean(ctx, flags.stateDir)
		},
	}
}

// clean stops the cloud that runs from the directory, if one does. Only the
// holder of the directory's lock is told to stop, so no other process is.
func clean(ctx context.Context, stateDir string) error {
	err := cloud.Clean(ctx, stateDir)
	if !errors.Is(err, cloud.ErrRunning) {
		return err
	}
	endpoints, err := admin.ReadEndpoints(stateDir)
	if err != nil {
		return err
	}
	if err := syscall.Kill(endpoints.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the running cloud: %w", err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopping the running cloud: %w", ctx.Err())
		case <-ticker.C:
		}
		if err := cloud.Clean(ctx, stateDir); !errors.Is(err, cloud.ErrRunning) {
			return err
		}
	}
}
