package nspawn

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

const (
	// shutdownTimeout is how long a server may take to shut down by itself.
	shutdownTimeout = 30 * time.Second
	// endTimeout is how long a server's keeper may take to end after the server.
	endTimeout = 3 * time.Second
	// killTimeout is how long killed processes may take to go.
	killTimeout = 10 * time.Second
	pollEvery   = 10 * time.Millisecond
)

// reboot asks the server to start again; one that was started a moment ago may have no process to ask yet.
func reboot(ctx context.Context, dir serverDir) error {
	keeper, err := loadProcess(dir)
	if err != nil {
		return err
	}
	system := 0
	_ = waitFor(ctx, endTimeout, func() bool {
		system, err = keeper.system()
		return err == nil || !keeper.alive()
	})
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", dir.name(), err)
	}
	if err := syscall.Kill(system, rebootSignal); err != nil {
		return fmt.Errorf("rebooting %s: %w", dir.name(), err)
	}
	return nil
}

// shutDown asks the server to stop and pulls the plug when it does not.
func (b *Backend) shutDown(ctx context.Context, dir serverDir) error {
	keeper, err := loadProcess(dir)
	if err != nil {
		return b.halt(ctx, dir) // there is none to ask, but there may be something to stop
	}
	if nspawn, err := keeper.nspawn(); err == nil && keeper.alive() {
		_ = syscall.Kill(nspawn, syscall.SIGTERM) // it tells the server; gone already is as good
	}
	_ = waitFor(ctx, shutdownTimeout, func() bool { return !keeper.alive() })
	return b.halt(ctx, dir)
}

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
