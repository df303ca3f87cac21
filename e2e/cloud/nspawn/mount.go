package nspawn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// mountRoot puts a writable root over the image: an overlay where the file
// system can, else a copy.
func mountRoot(ctx context.Context, image string, dir serverDir) error {
	if isMounted(dir.root()) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir.root(), "usr")); err == nil {
		return nil // a copy made before
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", image, dir.upper(), dir.work())
	err := syscall.Mount("overlay", dir.root(), "overlay", 0, options)
	if err == nil {
		return nil
	}
	return copyRoot(ctx, image, dir, err)
}

// copyRoot is for state directories on file systems that cannot carry an overlay.
func copyRoot(ctx context.Context, image string, dir serverDir, mountErr error) error {
	for _, from := range []string{image, dir.upper()} {
		output, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", from+"/.", dir.root()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("making root of %s: overlay: %w; copy: %w: %s", dir.name(), mountErr, err, output)
		}
	}
	return nil
}

// unmountBelow unmounts everything mounted at or below path, innermost first.
func unmountBelow(path string) error {
	mounts, err := mountPoints()
	if err != nil {
		return err
	}
	for _, mount := range slices.Backward(mounts) {
		if mount != path && !strings.HasPrefix(mount, path+"/") {
			continue
		}
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", mount, err)
		}
	}
	return nil
}

func isMounted(path string) bool {
	mounts, err := mountPoints()
	return err == nil && slices.Contains(mounts, path)
}

// mountPoints returns where something is mounted, in the order it was.
func mountPoints() ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parseMountPoints(string(content)), nil
}

func parseMountPoints(mountinfo string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescape.Replace(fields[4]))
		}
	}
	return points
}
