package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// unmountBelow detaches every mount below a directory, the innermost first.
func unmountBelow(root string) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(root))
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	var errs []error
	for _, mount := range slices.Backward(mounts) {
		if mount.Mountpoint == root {
			continue
		}
		if err := unix.Unmount(mount.Mountpoint, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", mount.Mountpoint, err))
		}
	}
	return errors.Join(errs...)
}

// netnsDir is where containerd and ip netns mount network namespaces.
const netnsDir = "/run/netns"

// shareNetns makes netnsDir a shared mount, as the first ip netns command on a
// machine does. Done later, it would double the mounts of running pods, and
// the hidden halves could not be unmounted any more.
func shareNetns() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil { //nolint:gosec // as ip-netns(8) makes it
		return fmt.Errorf("making %s: %w", netnsDir, err)
	}
	mounted, _, err := netnsMounts()
	if err != nil || mounted {
		return err
	}
	err = unix.Mount(netnsDir, netnsDir, "", unix.MS_BIND|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount("", netnsDir, "", unix.MS_SHARED|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("sharing %s: %w", netnsDir, err)
	}
	return nil
}

// netnsMounts reports whether netnsDir is a mount, and whether there are any below it.
func netnsMounts() (mounted, below bool, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(netnsDir))
	if err != nil {
		return false, false, fmt.Errorf("listing mounts: %w", err)
	}
	for _, mount := range mounts {
		mounted, below = mounted || mount.Mountpoint == netnsDir, below || mount.Mountpoint != netnsDir
	}
	return mounted, below, nil
}

// podCgroup is the kubelet's cgroup for all pods, in every hierarchy.
const podCgroup = "kubepods"

// removeCgroups kills the remaining processes in pods' cgroups and removes the cgroups.
func removeCgroups(ctx context.Context) error {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + podCgroup) // only a bad pattern is an error
	roots = append(roots, "/sys/fs/cgroup/"+podCgroup)
	var errs []error
	for _, root := range roots {
		// From its leaves up; the control files in it are not files that could be removed.
		var groups []string
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() { // else it has gone
				groups = append(groups, path)
			}
			return nil
		})
		for _, group := range slices.Backward(groups) {
			if err := emptyCgroup(ctx, group); err != nil {
				errs = append(errs, fmt.Errorf("removing cgroup %s: %w", group, err))
			}
		}
	}
	return errors.Join(errs...)
}

// emptyCgroup kills the cgroup's processes and removes it as soon as the
// kernel has buried them.
func emptyCgroup(ctx context.Context, dir string) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for word := range strings.FieldsSeq(string(procs)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
		}
		switch err := unix.Rmdir(dir); {
		case err == nil, errors.Is(err, unix.ENOENT):
			return true, nil
		case errors.Is(err, unix.EBUSY):
			return false, nil
		default:
			return false, err
		}
	})
}
