package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/process"
)

// cleanTimeout limits the removal of a node's remains.
const cleanTimeout = time.Minute

// Clean takes every trace of a node that does not run any more off the machine:
// pods, mounts, cgroups, routes, rules, kernel settings. It is idempotent and
// does nothing when the data directory never was a node, or was cleaned.
func Clean(ctx context.Context, dir datadir.Dir, runtime Runtime) error {
	if _, was, err := recall(dir); err != nil || !was {
		return err
	}
	lock, err := takeLock()
	if err != nil {
		return err
	}
	return errors.Join(clean(ctx, dir, runtime.below(dir)), lock.Close())
}

// clean is Clean for a caller that holds the node lock.
func clean(ctx context.Context, dir datadir.Dir, runtime Runtime) error {
	state, was, err := recall(dir)
	if err != nil || !was {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	err = errors.Join(
		removeLeftSandboxes(ctx, dir, runtime),
		killShims(dir),
		removeCgroups(ctx),
		unmountBelow(string(dir)),
		unmountBelow(runtime.State),
		restoreNetns(state),
		removeRules(ctx, ownedPrefixes...),
		removeRoutes(),
		restoreSettings(state),
		removeLogLinks(dir),
		removeFixedDirs(state),
	)
	if err != nil {
		return err
	}
	if err := os.Remove(marker(dir)); err != nil {
		return fmt.Errorf("forgetting the machine's former state: %w", err)
	}
	return nil
}

// removeLeftSandboxes starts containerd once more when tasks of pods are left:
// only it can take a pod's network and mounts down properly.
func removeLeftSandboxes(ctx context.Context, dir datadir.Dir, runtime Runtime) error {
	tasks, err := filepath.Glob(filepath.Join(runtime.State, "io.containerd.runtime.v2.task", imageNamespace, "*"))
	if err != nil || len(tasks) == 0 {
		return err
	}
	sup := process.New()
	defer sup.StopAll(stopGrace)
	service, err := startContainerd(ctx, dir, runtime, sup)
	if err != nil {
		return err
	}
	if err := service.Close(ctx); err != nil {
		return fmt.Errorf("closing connection to containerd: %w", err)
	}
	return removeSandboxes(ctx, dir)
}

// restoreNetns undoes shareNetns, unless namespaces are left there or the directory existed before.
func restoreNetns(state before) error {
	if !slices.Contains(state.Absent, netnsDir) {
		return nil
	}
	mounted, below, err := netnsMounts()
	if err != nil || !mounted || below {
		return err
	}
	if err := unix.Unmount(netnsDir, 0); err != nil {
		return fmt.Errorf("unmounting %s: %w", netnsDir, err)
	}
	return nil
}

// killShims ends the shims of this data directory's containerd that outlived it.
func killShims(dir datadir.Dir) error {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // only a bad pattern is an error
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(raw), "\x00")
		if !strings.Contains(args[0], "containerd-shim") || !slices.Contains(args, socket(dir)) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err != nil {
			return fmt.Errorf("reading process id of %s: %w", path, err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing shim %d: %w", pid, err)
		}
	}
	return nil
}

// removeLogLinks deletes the kubelet's links to the logs of our pods.
func removeLogLinks(dir datadir.Dir) error {
	links, _ := filepath.Glob("/var/log/containers/*") // only a bad pattern is an error
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, string(dir)+"/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("removing link to a container log: %w", err)
		}
	}
	return nil
}

// ownFiles are the files that a killed node leaves in directories outside its data directory.
var ownFiles = map[string]string{
	"/run/containerd":  "/run/containerd/s/*",
	"/var/lib/kubelet": "/var/lib/kubelet/device-plugins/*",
	"/var/lib/cni":     "/var/lib/cni/results/*",
}

// removeFixedDirs deletes the directories that the node made outside the data directory. Files that
// other programs put there since then stay.
func removeFixedDirs(state before) error {
	var errs []error
	for _, path := range fixedDirs {
		if !slices.Contains(state.Absent, path) {
			continue
		}
		files, _ := filepath.Glob(ownFiles[path]) // only a bad pattern is an error
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				errs = append(errs, fmt.Errorf("removing the node's remains: %w", err))
				break
			}
		}
		errs = append(errs, removeEmpty(path))
	}
	return errors.Join(errs...)
}

// removeEmpty deletes a directory and its subdirectories as far as they hold no files.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing the node's remains: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); !slices.Contains([]error{nil, unix.ENOTEMPTY, unix.EBUSY}, err) {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

// touched are the kernel settings that localkube, its kubelet and its
// kube-proxy change; clean puts the old values back.
var touched = []string{
	"net/ipv4/ip_forward",
	"net/ipv4/conf/all/route_localnet",
	"net/bridge/bridge-nf-call-iptables",
	"net/bridge/bridge-nf-call-ip6tables",
	"vm/overcommit_memory",
	"vm/panic_on_oom",
	"kernel/panic",
	"kernel/panic_on_oops",
	"kernel/keys/root_maxkeys",
	"kernel/keys/root_maxbytes",
}

// before is the machine's state before it became a node.
type before struct {
	Settings map[string]string `json:"settings"`
	// Absent are the directories that were not there.
	Absent []string `json:"absent"`
}

// fixedDirs are outside the data directory because the kubelet, containerd
// and libcni have their names built in.
var fixedDirs = []string{
	"/var/lib/kubelet", "/var/log/containers", "/var/lib/cni", "/run/containerd", netnsDir, "/opt/cni",
}

// remember records the machine's state, once per clean: a second start after
// a crash must not take our own settings for the machine's.
func remember(dir datadir.Dir) error {
	if _, err := os.Stat(marker(dir)); err == nil {
		return nil
	}
	state := before{Settings: map[string]string{}}
	for _, name := range touched {
		if raw, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			state.Settings[name] = strings.TrimSpace(string(raw))
		}
	}
	for _, path := range fixedDirs {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			state.Absent = append(state.Absent, path)
		}
	}
	raw, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the machine's state: %w", err)
	}
	return dir.Write(raw, "node", "restore.json")
}

func marker(dir datadir.Dir) string { return dir.Path("node", "restore.json") }

// recall reads the record of remember; ok is false without one.
func recall(dir datadir.Dir) (state before, ok bool, err error) {
	raw, err := os.ReadFile(marker(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return before{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		return before{}, false, fmt.Errorf("reading the machine's former state: %w", err)
	}
	return state, true, nil
}

func restoreSettings(state before) error {
	var errs []error
	for _, name := range touched { // only names we know, whatever the file says
		value, ok := state.Settings[name]
		if !ok {
			continue
		}
		path := filepath.Join("/proc/sys", name)
		if raw, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(raw)) == value {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restoring %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
