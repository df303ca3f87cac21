package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// ImageOptions configures BuildImage.
type ImageOptions struct {
	Dir      string    // the cache; one directory per recipe is made in it
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
	say := func(format string, args ...any) {
		if opts.Progress != nil {
			_, _ = fmt.Fprintf(opts.Progress, format+"\n", args...)
		}
	}
	dir, err := realPath(opts.Dir)
	if err != nil {
		return "", fmt.Errorf("resolving image directory: %w", err)
	}
	path := ImagePath(dir)
	if ImageExists(dir) {
		say("image %s is there", filepath.Base(path))
		return path, nil
	}
	if err := makeDir(dir); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"), func() {
		say("waiting for another process that makes it")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if ImageExists(dir) { // made by another process while we waited
		return path, nil
	}
	building := path + ".building"
	if err := build(ctx, building, opts, say); err != nil {
		return "", errors.Join(fmt.Errorf("building image: %w", err), discard(building))
	}
	if err := os.Rename(building, path); err != nil {
		return "", fmt.Errorf("keeping image: %w", err)
	}
	say("image %s is ready", filepath.Base(path))
	return path, nil
}

func build(ctx context.Context, root string, opts ImageOptions, say func(string, ...any)) error {
	if err := discard(root); err != nil {
		return err
	}
	mirror := hostMirror()
	if err := writeFile(filepath.Join(root, "etc/dpkg/dpkg.cfg.d/90-drover"), dpkgConfig, 0o644); err != nil {
		return err
	}
	say("installing %d packages and what they need; this takes a minute or two", len(packages()))
	install := []string{"--variant=minbase", "--include=" + strings.Join(packages(), ","), suite, root}
	if mirror != "" { // else it is left to debootstrap
		install = append(install, mirror)
	}
	if err := run(exec.CommandContext(ctx, "debootstrap", install...)); err != nil {
		return err
	}
	say("configuring")
	if err := furnish(root); err != nil {
		return err
	}
	configure := exec.CommandContext(ctx, "chroot", root, "/bin/sh", "-c", configureScript)
	configure.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}
	if err := run(configure); err != nil {
		return err
	}
	return unmountBelow(root)
}

// run tells the end of what a command printed when it fails; when its context ends, all that it started ends with it.
func run(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", command.Path, err, output[max(0, len(output)-1000):])
	}
	return nil
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

// debianMirror is a mirror of Debian itself, not of its security updates, in either of apt's formats.
var debianMirror = regexp.MustCompile(`(?m)^(?:URIs:|deb) .*?(https?://\S+/debian)/?(?:\s|$)`)

// hostMirror is where this machine itself gets Debian packages from; empty when it does not tell.
func hostMirror() string {
	for _, name := range []string{"sources.list.d/debian.sources", "sources.list"} {
		content, err := os.ReadFile(filepath.Join("/etc/apt", name))
		if err != nil {
			continue
		}
		if found := debianMirror.FindSubmatch(content); found != nil {
			return string(found[1])
		}
	}
	return ""
}
