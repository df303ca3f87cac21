package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/node"
)

const (
	// downGrace is what a server gets to stop by itself.
	downGrace = 90 * time.Second
	// killGrace is what the kernel needs to bury a killed one.
	killGrace = 10 * time.Second
)

// Down stops whatever runs on a data directory and cleans up after its node.
// It is idempotent; a directory that does not exist is down.
func Down(ctx context.Context, dataDir string, log io.Writer) error {
	dir, err := datadir.Locate(dataDir)
	if err != nil || !dir.Exists() {
		return err
	}
	say := newProgress(log)
	lock, err := seize(ctx, dir, say)
	if err != nil {
		return err
	}
	err = errors.Join(node.Clean(ctx, dir), lock.Release())
	if err == nil {
		say.step("%s is down", dir.Root())
	}
	return err
}

// seize takes the lock from a running server by stopping it, by force when
// asking does not help.
func seize(ctx context.Context, dir datadir.Dir, say *progress) (*datadir.Lock, error) {
	for _, attempt := range []struct {
		signal syscall.Signal
		grace  time.Duration
	}{{syscall.SIGTERM, downGrace}, {syscall.SIGKILL, killGrace}} {
		lock, err := dir.Lock()
		locked := (*datadir.LockedError)(nil)
		if !errors.As(err, &locked) {
			return lock, err
		}
		if !locked.Names() {
			return nil, fmt.Errorf("stopping what runs on %s: its lock names no process that could be seen from here (%d): stop it where it runs", dir.Root(), locked.PID)
		}
		say.step("sending %s to process %d", attempt.signal, locked.PID)
		if err := syscall.Kill(locked.PID, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Errorf("stopping process %d: %w", locked.PID, err)
		}
		waiting, cancel := context.WithTimeout(ctx, attempt.grace)
		lock, err = dir.AwaitLock(waiting)
		cancel()
		if err == nil {
			return lock, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("stopping what runs on %s: it did not end when killed", dir.Root())
}
