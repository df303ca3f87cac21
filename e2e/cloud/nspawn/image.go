package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ImageOptions configures BuildImage.
type ImageOptions struct {
	Dir      string    // the cache; one directory per recipe is made in it
	Mirror   string    // of Debian packages; by default the machine's own
	Progress io.Writer // told what is being done; may be nil
}

// configureScript runs inside the new root.
const configureScript = `set -e
useradd --create-home --shell /bin/bash ` + LoginUser + `
rm -f /etc/ssh/ssh_host_*
rm -f /etc/ssh/sshd_config.d/50-cloud-init.conf
chmod 0440 /etc/sudoers.d/90-` + LoginUser + `
python3 -m compileall -q /usr/lib/python3/dist-packages/cloudinit
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/info/* /var/cache/debconf/*-old /var/log/*.log
rm -rf /debootstrap /var/lib/cloud/*
`

// ImagePath returns where the image of the current recipe is in the cache.
func ImagePath(dir string) string {
	return filepath.Join(dir, suite+"-"+recipeDigest())
}

// ImageExists reports whether the image of the current recipe is in the cache.
func ImageExists(dir string) bool {
	_, err := os.Stat(filepath.Join(ImagePath(dir), "etc", "debian_version"))
	return err == nil
}

// BuildImage makes the servers' root file system, unless the cache has it,
// and returns its path. Only the first time needs a network.
func BuildImage(ctx context.Context, opts ImageOptions) (string, error) {
	progress := newProgress(opts.Progress)
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return "", fmt.Errorf("resolving image directory: %w", err)
	}
	path := ImagePath(dir)
	if ImageExists(dir) {
		progress.say("image %s is there", filepath.Base(path))
		return path, nil
	}
	if err := os.MkdirAll(dir, rootMode); err != nil {
		return "", fmt.Errorf("making image directory: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if ImageExists(dir) { // made by another process while we waited
		return path, nil
	}
	building := path + ".building"
	if err := build(ctx, building, opts, progress); err != nil {
		return "", errors.Join(fmt.Errorf("building image: %w", err), discard(building))
	}
	if err := os.Rename(building, path); err != nil {
		return "", fmt.Errorf("keeping image: %w", err)
	}
	progress.say("image %s is ready", filepath.Base(path))
	return path, nil
}

func build(ctx context.Context, root string, opts ImageOptions, progress *progress) error {
	if err := discard(root); err != nil {
		return err
	}
	mirror := opts.Mirror
	if mirror == "" {
		mirror = hostMirror()
	}
	if err := writeFile(filepath.Join(root, "etc/dpkg/dpkg.cfg.d/90-drover"), dpkgConfig, 0o644); err != nil {
		return err
	}
	progress.say("installing %d packages and what they need from %s; this takes a minute or two", len(packages()), mirror)
	install := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages(), ","), suite, root, mirror)
	if err := progress.run(install); err != nil {
		return err
	}
	progress.say("configuring")
	for _, name := range sortedKeys(imageFiles()) {
		if err := writeFile(filepath.Join(root, name), imageFiles()[name], 0o644); err != nil {
			return err
		}
	}
	for _, unit := range maskedUnits() {
		path := filepath.Join(root, "etc/systemd/system", unit)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("masking %s: %w", unit, err)
		}
		if err := os.Symlink("/dev/null", path); err != nil {
			return fmt.Errorf("masking %s: %w", unit, err)
		}
	}
	configure := exec.CommandContext(ctx, "chroot", root, "/bin/sh", "-c", configureScript)
	configure.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	if err := progress.run(configure); err != nil {
		return err
	}
	return unmountBelow(root)
}

// hostMirror is where this machine itself gets Debian packages from.
func hostMirror() string {
	const fallback = "http://deb.debian.org/debian"
	paths, err := filepath.Glob("/etc/apt/sources.list.d/debian.sources")
	if err != nil || len(paths) == 0 {
		return fallback
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		return fallback
	}
	for line := range strings.Lines(string(content)) {
		if uri, ok := strings.CutPrefix(line, "URIs:"); ok && strings.Contains(uri, "/debian") {
			return strings.Fields(uri)[0]
		}
	}
	return fallback
}

// discard removes a half-made image, with whatever is mounted in it.
func discard(root string) error {
	if err := unmountBelow(root); err != nil {
		return err
	}
	if err := os.RemoveAll(root); err != nil {
		return fmt.Errorf("removing half-made image: %w", err)
	}
	return nil
}

func writeFile(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), rootMode); err != nil {
		return fmt.Errorf("making directory: %w", err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return fmt.Errorf("writing file: %w", err)
	}
	return nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// lockFile waits for the lock on a file.
func lockFile(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(time.Second):
		}
	}
	return func() { _ = file.Close() }, nil
}
