package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
)

// The bridge that all servers are connected to, and the address it has.
const (
	BridgeName = "drover0"
	Gateway    = "198.18.0.1"
	netmask    = 16
)

// Slots is how many clouds can run beside each other.
const Slots = 8

// Host is this machine's network as one cloud uses it.
type Host struct {
	runDir string
	slot   int
	lock   *os.File // held while the cloud runs
}

// Open takes a slot for the cloud with the given state directory, makes the bridge if it is not there, and lets this machine
// carry many servers.
func Open(ctx context.Context, stateDir string) (*Host, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("preparing host network: only root can")
	}
	h := &Host{runDir: runDir}
	err := withSetupLock(h.runDir, func() error {
		if err := h.takeSlot(stateDir); err != nil {
			return err
		}
		if err := raiseInotify(inotifyLimit, h.runDir); err != nil {
			return err
		}
		return setUpBridge(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, h.Suspend())
	}
	return h, nil
}

// Slot returns the number of the cloud's slot.
func (h *Host) Slot() int { return h.slot }

// PublicRange returns the addresses a slot's servers get.
func PublicRange(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(slot * 16), 0}), 20)
}

// PrivateRange returns the addresses of a slot's servers' private networks.
func PrivateRange(slot int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(128 + slot*16), 0}), 20)
}

// Suspend lets the slot's lock go and keeps its claim, for a cloud whose
// servers go on running.
func (h *Host) Suspend() error {
	if h.lock == nil {
		return nil
	}
	lock := h.lock
	h.lock = nil
	return lock.Close()
}

// Close gives the slot back and removes the bridge when no other cloud uses it.
func (h *Host) Close(ctx context.Context) error {
	return withSetupLock(h.runDir, func() error {
		if err := os.Remove(slotFile(h.runDir, h.slot)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("giving slot back: %w", err), h.Suspend())
		}
		return errors.Join(h.Suspend(), removeIfUnused(ctx, h.runDir))
	})
}

// Release gives back the slot of a cloud that does not run any more, and
// removes the bridge when no other cloud uses it.
func Release(ctx context.Context, stateDir string) error {
	if _, err := os.Stat(runDir); errors.Is(err, os.ErrNotExist) {
		return removeBridge(ctx)
	}
	return withSetupLock(runDir, func() error {
		if err := forgetSlots(runDir, stateDir); err != nil {
			return err
		}
		return removeIfUnused(ctx, runDir)
	})
}

func removeIfUnused(ctx context.Context, dir string) error {
	used, err := slotsInUse(dir)
	if err != nil || used {
		return err
	}
	return errors.Join(removeBridge(ctx), restoreInotify(inotifyLimit, dir), os.RemoveAll(dir))
}
