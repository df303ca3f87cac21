package nspawn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// ImageOptions configures BuildImage.
type ImageOptions struct {
	Dir      string    // the cache; one directory per recipe is made in it
	Progress io.Writer // receives progress messages; may be nil
}

// configureScript runs inside the new root. Of systemd's generators, a dozen processes at each boot
// and reload, and of ifupdown's hooks a test's server needs none; cloud-init's generator stays.
const configureScript = `set -e
useradd --create-home --shell /bin/bash ` + LoginUser + `
systemctl enable --quiet ` + kubeletUnit + `
rm -f /etc/ssh/ssh_host_*
rm -f /etc/ssh/sshd_config.d/50-cloud-init.conf
chmod 0440 /etc/sudoers.d/90-` + LoginUser + `
rm -f /usr/lib/systemd/system-generators/systemd-* /etc/network/if-*.d/ethtool /etc/network/if-*.d/resolved
python3 -m compileall -q /usr/lib/python3/dist-packages/cloudinit
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/info/* /var/cache/debconf/*-old /var/log/*.log
rm -rf /debootstrap /var/lib/cloud/*
`

// BuildImage makes the servers' root file system, unless the cache has it,
// and returns its path. Only the first time needs a network.
func BuildImage(ctx context.Context, opts ImageOptions) (string, error) {
	progress := cmp.Or(opts.Progress, io.Discard)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(progress, format+"\n", args...) }
	dir, err := realPath(opts.Dir)
	if err != nil {
		return "", fmt.Errorf("resolving image directory: %w", err)
	}
	path := filepath.Join(dir, suite+"-"+recipeDigest())
	isMade := func() bool { return exists(filepath.Join(path, "etc", "debian_version")) }
	if isMade() {
		say("image %s is there", filepath.Base(path))
		return path, nil
	}
	if err := makeDir(dir); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock")) // which another process has that makes it
	if err != nil {
		return "", err
	}
	defer unlock()
	if isMade() { // made by another process while we waited
		return path, nil
	}
	building := path + ".building"
	if err := build(ctx, building, say); err != nil {
		return "", errors.Join(fmt.Errorf("building image: %w", err), discard(building))
	}
	if err := os.Rename(building, path); err != nil {
		return "", fmt.Errorf("keeping image: %w", err)
	}
	say("image %s is ready", filepath.Base(path))
	return path, nil
}

func build(ctx context.Context, root string, say func(string, ...any)) error {
	if err := discard(root); err != nil {
		return err
	}
	mirror := hostMirror()
	if err := writeFile(filepath.Join(root, "etc/dpkg/dpkg.cfg.d/90-drover"), dpkgConfig, 0o644); err != nil {
		return err
	}
	say("installing %d packages and their dependencies; this takes a minute or two", len(packages))
	install := []string{"--variant=minbase", "--include=" + strings.Join(packages, ","), suite, root}
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

// run returns the end of a failed command's output in its error; when the context ends, the
// command's whole process group ends.
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
	for _, name := range slices.Sorted(maps.Keys(imageFiles)) {
		if err := writeFile(filepath.Join(root, name), imageFiles[name], 0o644); err != nil {
			return err
		}
	}
	for _, unit := range maskedUnits {
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

// hostMirror is this machine's own mirror of Debian packages; empty if it is not configured.
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

const suite = "bookworm"

// LoginUser is the login beside root that every server has; it may use sudo.
const LoginUser = "ubuntu"

// packages are the installed packages. python3-cffi-backend is listed because debootstrap does not
// resolve the virtual package that cloud-init depends on.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "openssh-server", "cloud-init", "python3-cffi-backend", "iproute2", "iputils-ping",
	"iptables", "conntrack", "ethtool", "kmod", "procps", "curl", "ca-certificates", "sudo", "netbase", "ifupdown",
	"locales", "xz-utils", "containerd", "runc", "containernetworking-plugins",
}

// maskedUnits are not needed in a server of a test and only make its boot longer.
var maskedUnits = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
	"dpkg-db-backup.timer", "systemd-pstore.service", "getty.target", "console-getty.service", "systemd-udevd.service",
	"systemd-udev-trigger.service", "systemd-networkd.service", "cloud-init-hotplugd.socket", "cloud-config.service",
	"systemd-logind.service", "systemd-modules-load.service", "systemd-update-utmp.service",
	"systemd-update-utmp-runlevel.service", "ifupdown-pre.service", "modprobe@.service", "dev-hugepages.mount",
	"dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount",
	"sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.automount", "systemd-binfmt.service",
	"containerd.service", // a Kubernetes that is installed starts its own
}

// imageFiles are written over the installed system. The backend makes the host keys of each server,
// so cloud-init must neither delete nor make any.
var imageFiles = map[string]string{
	"etc/machine-id":                       "",
	"etc/hostname":                         "localhost\n",
	"etc/network/interfaces":               "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n",
	"etc/sudoers.d/90-" + LoginUser:        LoginUser + " ALL=(ALL) NOPASSWD:ALL\n",
	"etc/ssh/sshd_config.d/90-drover.conf": "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n",
	"etc/cloud/cloud.cfg.d/90_drover.cfg":  cloudConfig,
	"etc/systemd/system/" + kubeletUnit:    kubeletUnitText,
	kubeletScript:                          kubeletScriptText,
}

// kubeletUnit makes a container look like a machine to a kubelet: systemd-nspawn mounts control
// groups and kernel settings read-only, keeps mounts private, and has no log of the kernel.
const (
	kubeletUnit     = "fit-for-kubelet.service"
	kubeletUnitText = `[Unit]
Description=Make this container fit for a kubelet
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -e /` + kubeletScript + `

[Install]
WantedBy=sysinit.target
`
	kubeletScript     = "usr/local/lib/fit-for-kubelet.sh"
	kubeletScriptText = `mount -o remount,rw /sys/fs/cgroup
for group in $(findmnt -rno TARGET -t cgroup,cgroup2); do
	mount -o remount,bind,rw "$group"
done
mount -o remount,bind,rw /proc/sys
mount --make-rshared /
[ -e /dev/kmsg ] || mknod /dev/kmsg c 1 11
`
)

// dpkgConfig makes the installation fast: a test's server need not survive a power cut during it,
// and needs no manuals.
const dpkgConfig = `force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
`

// cloudConfig runs the modules of the config stage in the final one, in the
// same order: each stage is a start of Python, most of the time a boot takes.
const cloudConfig = `datasource_list: [ NoCloud, None ]
datasource:
  NoCloud: {}
disable_root: false
ssh_deletekeys: false
ssh_genkeytypes: []
ssh_pwauth: false
manage_etc_hosts: true
growpart: {mode: "off"}
resize_rootfs: false
cloud_init_modules: [bootcmd, write-files, set_hostname, update_hostname, update_etc_hosts, ca-certs, users-groups, ssh]
cloud_config_modules: []
cloud_final_modules: [ssh-import-id, locale, set-passwords, ntp, timezone, runcmd, package-update-upgrade-install,
  write-files-deferred, scripts-vendor, scripts-per-once, scripts-per-boot, scripts-per-instance, scripts-user, phone-home,
  final-message, power-state-change]
locale: false
system_info:
  distro: debian
  default_user: {name: root, lock_passwd: true, shell: /bin/bash}
`

// recipeDigest changes whenever the image would come out different.
func recipeDigest() string {
	var text strings.Builder
	fmt.Fprint(&text, suite, packages, maskedUnits, dpkgConfig, configureScript)
	for _, name := range slices.Sorted(maps.Keys(imageFiles)) {
		fmt.Fprint(&text, name, imageFiles[name])
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])[:12]
}
