package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// runDir is emptied by a reboot of the machine, as the bridge is.
const runDir = "/run/drover"

func slotFile(dir string, slot int) string {
	return filepath.Join(dir, fmt.Sprintf("slot-%d", slot))
}

// withSetupLock makes the directory and runs do while no other process changes slots or the bridge. The lock is one of the
// directory above it: who is the last removes this one, and a lock inside would go with it and keep nobody out.
func withSetupLock(dir string, do func() error) error {
	lock, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("locking host network: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	if err == nil {
		err = os.MkdirAll(dir, 0o750)
	}
	if err != nil {
		return fmt.Errorf("locking host network: %w", errors.Join(err, lock.Close()))
	}
	return errors.Join(do(), lock.Close())
}

// takeSlot claims the slot the state directory had, or else a free one.
func (h *Host) takeSlot(stateDir string) error {
	for _, wanted := range []func(owner string) bool{
		func(owner string) bool { return owner == stateDir },
		isAbandoned,
	} {
		for slot := range Slots {
			taken, err := h.trySlot(slot, stateDir, wanted)
			if err != nil || taken {
				return err
			}
		}
	}
	return fmt.Errorf("taking slot: all %d are used by other local clouds; see %s", Slots, h.runDir)
}

func (h *Host) trySlot(slot int, stateDir string, wanted func(owner string) bool) (bool, error) {
	file, err := os.OpenFile(slotFile(h.runDir, slot), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("opening slot: %w", err)
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, file.Close() // a running cloud has it
	}
	owner, err := io.ReadAll(io.LimitReader(file, 4096))
	if err != nil || !wanted(strings.TrimSpace(string(owner))) {
		return false, errors.Join(err, file.Close())
	}
	h.slot, h.lock = slot, file
	if strings.TrimSpace(string(owner)) == stateDir {
		return true, nil // a crash while it is written again would make it nobody's
	}
	if err := os.WriteFile(file.Name(), []byte(stateDir+"\n"), 0o600); err != nil {
		return false, fmt.Errorf("claiming slot: %w", err)
	}
	return true, nil
}

// isAbandoned reports whether a slot's last owner has nothing left that could
// use the slot's addresses.
func isAbandoned(owner string) bool {
	if owner == "" {
		return true
	}
	servers, err := os.ReadDir(filepath.Join(owner, "servers"))
	return errors.Is(err, os.ErrNotExist) || err == nil && len(servers) == 0
}

func forgetSlots(dir, stateDir string) error {
	for slot := range Slots {
		owner, err := os.ReadFile(slotFile(dir, slot))
		if err != nil || strings.TrimSpace(string(owner)) != stateDir {
			continue
		}
		if err := os.Remove(slotFile(dir, slot)); err != nil {
			return fmt.Errorf("giving slot back: %w", err)
		}
	}
	return nil
}

// slotsInUse reports whether any cloud runs or has left servers behind.
func slotsInUse(dir string) (bool, error) {
	used := false
	for slot := range Slots {
		file, err := os.OpenFile(slotFile(dir, slot), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("opening slot: %w", err)
		}
		locked := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
		owner, err := io.ReadAll(io.LimitReader(file, 4096))
		if locked || err != nil || !isAbandoned(strings.TrimSpace(string(owner))) {
			used = true
		}
		if err := file.Close(); err != nil {
			return false, fmt.Errorf("closing slot: %w", err)
		}
	}
	return used, nil
}
