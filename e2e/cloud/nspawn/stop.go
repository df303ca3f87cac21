package nspawn

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// endTimeout is how long a server's keeper may take to end after the server.
	endTimeout = 3 * time.Second
	// killTimeout is how long killed processes may take to go.
	killTimeout = 10 * time.Second
	pollEvery   = 10 * time.Millisecond
)

// halt pulls the plug: the server's first process is killed, and with it all
// others. systemd-nspawn and the keeper then end by themselves, each collected
// by its parent, so that no dead process is left to init. It takes seconds at
// most and is not left half done when ctx ends.
func (b *Backend) halt(ctx context.Context, dir serverDir) error {
	ctx = context.WithoutCancel(ctx)
	keeper, err := loadProcess(dir)
	if err == nil && keeper.alive() {
		if system, err := keeper.system(); err == nil {
			_ = syscall.Kill(system, syscall.SIGKILL) // gone already is as good
			_ = waitFor(ctx, endTimeout, func() bool { return !keeper.alive() })
		}
	}
	groups, err := b.host.cgroups(dir.name())
	if err != nil {
		return err
	}
	if err := killAll(ctx, keeper, groups); err != nil {
		return fmt.Errorf("stopping %s: %w", dir.name(), err)
	}
	if err := groups.remove(); err != nil {
		return err
	}
	return b.host.removeInterface(ctx, cable(dir.name()))
}

// killAll kills whatever is left, the keeper first, so that it restarts nothing.
func killAll(ctx context.Context, keeper process, groups cgroups) error {
	if err := keeper.kill(); err != nil {
		return err
	}
	err := waitFor(ctx, killTimeout, func() bool {
		left := groups.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0 && !keeper.alive() // one that is taken for alive would not be started again
	})
	if err != nil {
		return fmt.Errorf("waiting for its processes to go: %w", err)
	}
	return nil
}

// waitFor waits until done.
func waitFor(ctx context.Context, timeout time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
