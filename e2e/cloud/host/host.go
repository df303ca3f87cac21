// Package host prepares this machine's network for the servers of a local cloud: one bridge, which
// one cloud at a time uses.
//
// It keeps a lock and the original settings under /run/drover, and leaves nothing behind after the
// cloud has ended. Package cloud uses it.
package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	lock, err := Lock(runDir, errBusy)
	if err != nil {
		return nil, err
	}
	h := &Host{lock: lock}
	err = raiseInotify(inotifyLimit, runDir)
	if err == nil {
		err = setUpBridge(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	return h, nil
}

// Lock makes a directory and takes its lock, which goes with the process; the error is busy when
// another one has it.
func Lock(dir string, busy error) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, busy), lock.Close())
	}
	return lock, nil
}

// Close removes the bridge and restores the original settings.
func (h *Host) Close(ctx context.Context) error {
	return errors.Join(
		disallowForwarding(ctx), RemoveInterface(ctx, BridgeName), restoreInotify(inotifyLimit, runDir), os.RemoveAll(runDir), h.lock.Close())
}

// Release is Close for a cloud that does not run any more; where another one runs, it changes
// nothing.
func Release(ctx context.Context) error {
	lock, err := Lock(runDir, errBusy)
	if errors.Is(err, errBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return (&Host{lock: lock}).Close(ctx)
}

// setUpBridge makes the bridge with its address. Forwarding is switched on
// for the bridge alone, so that it ends with the bridge.
func setUpBridge(ctx context.Context) error {
	if _, err := net.InterfaceByName(BridgeName); err != nil {
		if err := run(ctx, "ip", "link", "add", BridgeName, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := run(ctx, "ip", "address", "replace", Gateway+"/16", "dev", BridgeName); err != nil {
		return err
	}
	if err := run(ctx, "ip", "link", "set", BridgeName, "up"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+BridgeName+"/forwarding", []byte("1"), 0o600); err != nil {
		return fmt.Errorf("switching forwarding on: %w", err)
	}
	policy, err := exec.CommandContext(ctx, "iptables", "-w", "-S", "FORWARD").Output()
	if err != nil || !strings.Contains(string(policy), "-P FORWARD DROP") {
		return nil //nolint:nilerr // without iptables nothing is dropped
	}
	for _, rule := range forwardRules {
		if hasRule(ctx, rule) {
			continue
		}
		if err := run(ctx, "iptables", append([]string{"-w", "-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// RemoveInterface removes a network interface; a missing interface is not an error.
func RemoveInterface(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil //nolint:nilerr // the interface is gone already
	}
	err := run(ctx, "ip", "link", "delete", name)
	if _, gone := net.InterfaceByName(name); gone != nil {
		return nil //nolint:nilerr // it went by itself in between
	}
	return err
}

// forwardRules are needed only if the machine drops forwarded packets.
var forwardRules = [][]string{{"FORWARD", "-i", BridgeName, "-j", "ACCEPT"}, {"FORWARD", "-o", BridgeName, "-j", "ACCEPT"}}

func disallowForwarding(ctx context.Context) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return nil //nolint:nilerr // without iptables there are no rules
	}
	var errs []error
	for _, rule := range forwardRules {
		if hasRule(ctx, rule) {
			errs = append(errs, run(ctx, "iptables", append([]string{"-w", "-D"}, rule...)...))
		}
	}
	return errors.Join(errs...)
}

func hasRule(ctx context.Context, rule []string) bool {
	return exec.CommandContext(ctx, "iptables", append([]string{"-w", "-C"}, rule...)...).Run() == nil
}

func run(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// wantedInstances suffices for hundreds of servers. systemd as a server's first process holds about
// six inotify instances, all owned by root, and the kernel allows a user 128 (inotify(7),
// max_user_instances). Beyond that limit new servers end during their start.
const wantedInstances = 8192

const (
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// inotifyFile keeps the original limit.
	inotifyFile = "inotify-before"
)

// raiseInotify raises the limit at a path and keeps the original limit in the directory.
func raiseInotify(path, dir string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading how many inotify instances there may be: %w", err)
	}
	before, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("reading how many inotify instances there may be: %w", err)
	}
	if before >= wantedInstances {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, inotifyFile), content, 0o600); err != nil {
		return fmt.Errorf("keeping how many inotify instances there could be: %w", err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(wantedInstances)), 0o600); err != nil {
		return fmt.Errorf("fs.inotify.max_user_instances is %d, which is enough for some %d servers: run sysctl -w fs.inotify.max_user_instances=%d on this machine: %w",
			before, before/6, wantedInstances, err)
	}
	return nil
}

// restoreInotify restores the original limit at a path.
func restoreInotify(path, dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, inotifyFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("lowering fs.inotify.max_user_instances again: %w", err)
	}
	return nil
}
