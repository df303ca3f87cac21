package nspawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// cgroupParent is the group that all servers' groups are in.
const cgroupParent = "drover"

// cgroups are the control groups of one server, one per mounted hierarchy.
// Without them the servers' systemds would manage each other's services.
type cgroups []string

// findCgroups returns where the server's groups are, whether made or not: one below the mount point
// of each hierarchy, of version 1 and 2.
func findCgroups(name string) (cgroups, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	var found cgroups
	for _, mount := range mounts {
		if strings.HasPrefix(mount.Mountpoint, "/sys/fs/cgroup") {
			found = append(found, filepath.Join(mount.Mountpoint, cgroupParent, name))
		}
	}
	return found, nil
}

func (c cgroups) create() error {
	for _, dir := range c {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("making control group: %w", err)
		}
		for _, group := range []string{filepath.Dir(dir), dir} {
			if err := inheritCpuset(group); err != nil {
				return err
			}
		}
		if err := limitMemory(dir); err != nil {
			return err
		}
	}
	return nil
}

// memoryLimit is a server's memory limit, in bytes. The smallest server for a control plane has
// less memory. A server without a limit could exhaust the host's memory.
const memoryLimit = 4 << 30

func limitMemory(group string) error {
	for _, name := range []string{"memory.limit_in_bytes", "memory.max"} { // of version 1 and 2, where the group has that controller
		path := filepath.Join(group, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := os.WriteFile(path, []byte(strconv.Itoa(memoryLimit)), 0o600); err != nil {
			return fmt.Errorf("limiting a server's memory: %w", err)
		}
	}
	return nil
}

// inheritCpuset copies the parent's settings into a group of version 1's cpuset; without them no
// process can enter it.
func inheritCpuset(group string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		inherited, err := os.ReadFile(filepath.Join(filepath.Dir(group), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // not this controller
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if len(strings.TrimSpace(string(inherited))) == 0 {
			return nil // version 2, whose groups inherit without a setting
		}
		if err := os.WriteFile(filepath.Join(group, name), inherited, 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// processes returns the processes in the groups, each once. A group that goes
// while we look has none.
func (c cgroups) processes() []int {
	seen := map[int]bool{}
	var found []int
	for _, group := range c.nested() {
		content, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				found = append(found, pid)
			}
		}
	}
	return found
}

// nested returns the groups and those the server has made in them, outermost first.
func (c cgroups) nested() []string {
	var found []string
	for _, dir := range c {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil
		})
	}
	return found
}

// remove removes the groups, innermost first, and the parent when it is empty.
func (c cgroups) remove() error {
	for _, group := range slices.Backward(c.nested()) {
		if err := syscall.Rmdir(group); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("removing control group %s: %w", group, err)
		}
	}
	for _, dir := range c {
		_ = syscall.Rmdir(filepath.Dir(dir)) // fails while other servers are in it
	}
	return nil
}
