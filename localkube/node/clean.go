package node

import (
	"context"
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

// cleanTimeout bounds the removal of what a node left behind.
const cleanTimeout = time.Minute

// Clean takes every trace of a node that does not run any more off the machine:
// pods, mounts, cgroups, routes, rules, kernel settings. It is idempotent and
// does nothing when the data directory never was a node, or was cleaned.
func Clean(ctx context.Context, dir datadir.Dir) error {
	if _, was, err := recall(layout{dir}); err != nil || !was {
		return err
	}
	lock, err := takeNodeLock()
	if err != nil {
		return err
	}
	return errors.Join(clean(ctx, layout{dir}), lock.Close())
}

// clean is Clean for a caller that holds the node lock.
func clean(ctx context.Context, l layout) error {
	state, was, err := recall(l)
	if err != nil || !was {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	err = errors.Join(
		removeLeftSandboxes(ctx, l),
		killShims(l),
		removeCgroups(ctx),
		unmountBelow(l.Root()),
		restoreNetns(state),
		removeRules(ctx),
		removeRoutes(),
		restoreSettings(state),
		removeLogLinks(l),
		removeFixedDirs(state),
	)
	if err != nil {
		return err
	}
	if err := os.Remove(l.marker()); err != nil {
		return fmt.Errorf("forgetting the machine's former state: %w", err)
	}
	return nil
}

// removeLeftSandboxes starts containerd once more when tasks of pods are left:
// only it can take a pod's network and mounts down properly.
func removeLeftSandboxes(ctx context.Context, l layout) error {
	tasks, err := filepath.Glob(filepath.Join(l.containerdState(), "io.containerd.runtime.v2.task", imageNamespace, "*"))
	if err != nil || len(tasks) == 0 {
		return err
	}
	spec, err := l.containerd()
	if err != nil {
		return err
	}
	sup := process.New()
	if err := sup.Start(spec); err != nil {
		return err
	}
	defer sup.StopAll(stopGrace)
	runtime, err := l.awaitContainerd(ctx)
	if err != nil {
		return err
	}
	if err := runtime.Close(ctx); err != nil {
		return fmt.Errorf("closing connection to containerd: %w", err)
	}
	return removeSandboxes(ctx, l)
}

// restoreNetns undoes shareNetns, unless namespaces are left there or the directory was somebody's before.
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
func killShims(l layout) error {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, path := range lines {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(raw), "\x00")
		if !strings.Contains(args[0], "containerd-shim") || !slices.Contains(args, l.containerdSocket()) {
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
func removeLogLinks(l layout) error {
	links, err := filepath.Glob("/var/log/containers/*")
	if err != nil {
		return fmt.Errorf("listing container logs: %w", err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, l.Root()+"/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return fmt.Errorf("removing link to a container log: %w", err)
		}
	}
	return nil
}

// ownFiles are what a node leaves in the directories outside its data
// directory when it was killed.
var ownFiles = []string{
	"/run/containerd/s/*",
	"/var/lib/kubelet/device-plugins/*",
	"/var/lib/cni/results/*",
}

// removeFixedDirs deletes the directories the node made outside the data
// directory. What others have put there since stays.
func removeFixedDirs(state before) error {
	var errs []error
	for _, dir := range fixedDirs {
		if slices.Contains(state.Absent, dir) {
			errs = append(errs, removeOwnFiles(dir), removeEmpty(dir))
		}
	}
	return errors.Join(errs...)
}

func removeOwnFiles(dir string) error {
	for _, pattern := range ownFiles {
		if !strings.HasPrefix(pattern, dir+"/") {
			continue
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("listing %s: %w", pattern, err)
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("removing what the node left: %w", err)
			}
		}
	}
	return nil
}

// removeEmpty deletes a directory as far as there are no files in it.
func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing what the node left: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	err = unix.Rmdir(dir)
	if err == nil || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY) {
		return nil
	}
	return fmt.Errorf("removing %s: %w", dir, err)
}
