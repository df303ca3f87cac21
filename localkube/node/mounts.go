package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// unmountBelow detaches every mount below a directory, the innermost first.
func unmountBelow(root string) error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	var errs []error
	points := mountPoints(string(raw), root)
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountPoints reads the mounts below a directory, in mounting order, from the
// text of mountinfo.
func mountPoints(mountinfo, root string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(mountinfo) {
		words := strings.Fields(line)
		if len(words) < 5 {
			continue
		}
		if point := unescape.Replace(words[4]); strings.HasPrefix(point, root+"/") {
			points = append(points, point)
		}
	}
	return points
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

// netnsMounts tells whether netnsDir is a mount, and whether there are any below it.
func netnsMounts() (mounted, below bool, err error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, false, fmt.Errorf("listing mounts: %w", err)
	}
	points := mountPoints(string(raw), filepath.Dir(netnsDir))
	return slices.Contains(points, netnsDir), len(mountPoints(string(raw), netnsDir)) > 0, nil
}
