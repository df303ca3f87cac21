package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// The bridge that all servers are connected to, and the address it has.
const (
	BridgeName = "drover0"
	Gateway    = "198.18.0.1"
)

// runDir is emptied by a reboot of the machine, as the bridge is.
const runDir = "/run/drover"

// errBusy says that a cloud runs that uses the bridge.
var errBusy = errors.New("another local cloud uses this machine's network")

// Host is this machine's network as one cloud uses it.
type Host struct {
	lock *os.File // held while the cloud runs
}

// Open makes the bridge, and lets this machine carry many servers.
func Open(ctx context.Context) (*Host, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("preparing host network: only root can")
	}
	h, err := take()
	if err != nil {
		return nil, err
	}
	err = raiseInotify(inotifyLimit, runDir)
	if err == nil {
		err = setUpBridge(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

func take() (*Host, error) {
	if err := os.MkdirAll(runDir, 0o750); err != nil {
		return nil, fmt.Errorf("locking host network: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(runDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking host network: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errBusy, lock.Close())
	}
	return &Host{lock: lock}, nil
}

// Close removes the bridge and puts back what was changed.
func (h *Host) Close(ctx context.Context) error {
	return errors.Join(
		disallowForwarding(ctx), RemoveInterface(ctx, BridgeName), restoreInotify(inotifyLimit, runDir), os.RemoveAll(runDir), h.lock.Close())
}

// Release is Close for a cloud that does not run any more; where another one runs, it changes nothing.
func Release(ctx context.Context) error {
	h, err := take()
	if errors.Is(err, errBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.Close(ctx)
}
