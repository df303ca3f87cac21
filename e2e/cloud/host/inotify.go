package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wantedInstances is enough for hundreds of servers: systemd as a server's first process holds about six inotify instances, all
// of them root's, of whom the kernel allows 128 (inotify(7), max_user_instances). Beyond that new servers end as they begin.
const wantedInstances = 8192

const inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"

// raiseInotify raises the limit at a path and keeps in the directory what it was.
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
	if err := os.WriteFile(inotifyBefore(dir), content, 0o600); err != nil {
		return fmt.Errorf("keeping how many inotify instances there could be: %w", err)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(wantedInstances)), 0o600); err != nil {
		return fmt.Errorf("fs.inotify.max_user_instances is %d, which is enough for some %d servers: run sysctl -w fs.inotify.max_user_instances=%d on this machine: %w",
			before, before/6, wantedInstances, err)
	}
	return nil
}

// restoreInotify sets the limit at a path to what it was before it was raised.
func restoreInotify(path, dir string) error {
	content, err := os.ReadFile(inotifyBefore(dir))
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

func inotifyBefore(dir string) string { return filepath.Join(dir, "inotify-before") }
