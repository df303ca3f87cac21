package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ImageOptions configures BuildImage.
type ImageOptions struct {
	Dir      string    // the cache; one directory per recipe is made in it
	Mirror   string    // of Debian packages; by default the machine's own, or else debootstrap's
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
	dir, err := realPath(opts.Dir)
	if err != nil {
		return "", fmt.Errorf("resolving image directory: %w", err)
	}
	path := ImagePath(dir)
	if ImageExists(dir) {
		progress.say("image %s is there", filepath.Base(path))
		return path, nil
	}
	if err := makeDir(dir); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"), func() {
		progress.say("waiting for another process that makes it")
	})
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
		mirror = hostMirror(aptDir)
	}
	if err := writeFile(filepath.Join(root, "etc/dpkg/dpkg.cfg.d/90-drover"), dpkgConfig, 0o644); err != nil {
		return err
	}
	progress.say("installing %d packages and what they need from %s; this takes a minute or two", len(packages()), withoutPassword(mirror))
	install := installCommand(root, mirror)
	if err := progress.run(exec.CommandContext(ctx, install[0], install[1:]...)); err != nil {
		return err
	}
	progress.say("configuring")
	if err := furnish(root); err != nil {
		return err
	}
	configure := exec.CommandContext(ctx, "chroot", root, "/bin/sh", "-c", configureScript)
	configure.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	if err := progress.run(configure); err != nil {
		return err
	}
	return unmountBelow(root)
}

// installCommand leaves it to debootstrap where packages come from when nobody has said it.
func installCommand(root, mirror string) []string {
	command := []string{"debootstrap", "--variant=minbase", "--include=" + strings.Join(packages(), ","), suite, root}
	if mirror == "" {
		return command
	}
	return append(command, mirror)
}

// furnish writes our files over the installed system and masks its units.
func furnish(root string) error {
	for _, name := range sortedKeys(imageFiles()) {
		if err := writeFile(filepath.Join(root, name), imageFiles()[name], 0o644); err != nil {
			return err
		}
	}
	for _, unit := range maskedUnits() {
		path := filepath.Join(root, "etc/systemd/system", unit)
		if err := makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("masking %s: %w", unit, err)
		}
		if err := os.Symlink("/dev/null", path); err != nil {
			return fmt.Errorf("masking %s: %w", unit, err)
		}
	}
	return nil
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
