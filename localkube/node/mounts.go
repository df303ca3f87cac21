package node

import (
	"errors"
	"fmt"
	"os"
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
