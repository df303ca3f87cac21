package nspawn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// mountRoot puts a writable root over the image: an overlay where the file
// system can, else a copy, for which it is noted when it is whole.
func (b *Backend) mountRoot(ctx context.Context, image string, dir serverDir) error {
	if isMounted(dir.root()) || exists(dir.copied()) {
		return nil
	}
	mountErr := b.host.mountOverlay(dir.root(), overlayOptions(image, dir))
	if mountErr == nil {
		return nil
	}
	if err := copyRoot(ctx, image, dir); err != nil {
		return fmt.Errorf("making root of %s: overlay: %w; copy: %w", dir.name(), mountErr, err)
	}
	return replaceFile(dir.copied(), "")
}

// overlayOptions escapes what means something in them: a comma ends an option, a colon a lower layer.
func overlayOptions(image string, dir serverDir) string {
	option := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	layer := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `:`, `\:`)
	return fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", layer.Replace(image), option.Replace(dir.upper()), option.Replace(dir.work()))
}

// copyRoot is for state directories on file systems that cannot carry an overlay.
func copyRoot(ctx context.Context, image string, dir serverDir) error {
	if err := os.RemoveAll(dir.root()); err != nil { // what a crash left of a copy
		return err
	}
	if err := makeDir(dir.root()); err != nil {
		return err
	}
	for _, from := range []string{image, dir.upper()} {
		output, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", from+"/.", dir.root()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
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
