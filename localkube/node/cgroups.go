package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// podCgroup is the kubelet's cgroup for all pods, in every hierarchy.
const podCgroup = "kubepods"

// removeCgroups kills what still runs in pods' cgroups and removes them.
func removeCgroups(ctx context.Context) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + podCgroup)
	if err != nil {
		return fmt.Errorf("listing cgroups: %w", err)
	}
	roots = append(roots, "/sys/fs/cgroup/"+podCgroup)
	var errs []error
	for _, root := range roots {
		if err := removeCgroup(ctx, root); err != nil {
			errs = append(errs, fmt.Errorf("removing cgroup %s: %w", root, err))
		}
	}
	return errors.Join(errs...)
}

// removeCgroup removes a cgroup from its leaves up; the control files in it
// are not files that could be removed.
func removeCgroup(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeCgroup(ctx, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return emptyCgroup(ctx, dir)
}

// emptyCgroup kills the cgroup's processes and removes it as soon as the
// kernel has buried them.
func emptyCgroup(ctx context.Context, dir string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for word := range strings.FieldsSeq(string(procs)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
		}
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
