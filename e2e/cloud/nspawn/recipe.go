package nspawn

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const suite = "bookworm"

// LoginUser is the login beside root that every server has; it may use sudo.
const LoginUser = "ubuntu"

// packages is what is installed. python3-cffi-backend stands here because
// debootstrap does not follow the virtual package cloud-init's needs lead to.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "openssh-server", "cloud-init", "python3-cffi-backend", "iproute2", "iputils-ping",
		"iptables", "conntrack", "ethtool", "kmod", "procps", "curl", "ca-certificates", "sudo", "netbase", "ifupdown",
		"locales", "xz-utils",
	}
}

// maskedUnits are not needed in a server of a test and only make its boot longer.
func maskedUnits() []string {
	return []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
		"dpkg-db-backup.timer", "systemd-pstore.service", "getty.target", "console-getty.service", "systemd-udevd.service",
		"systemd-udev-trigger.service", "systemd-networkd.service", "cloud-init-hotplugd.socket", "cloud-config.service",
		"systemd-logind.service", "systemd-modules-load.service", "systemd-update-utmp.service",
		"systemd-update-utmp-runlevel.service", "ifupdown-pre.service", "modprobe@.service", "dev-hugepages.mount",
		"dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount",
		"sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.automount", "systemd-binfmt.service",
	}
}

// imageFiles are written over the installed system. Host keys are made by us
// for each server, so cloud-init is told neither to delete nor to make any.
func imageFiles() map[string]string {
	return map[string]string{
		"etc/machine-id":                       "",
		"etc/hostname":                         "localhost\n",
		"etc/network/interfaces":               "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n",
		"etc/sudoers.d/90-" + LoginUser:        LoginUser + " ALL=(ALL) NOPASSWD:ALL\n",
		"etc/ssh/sshd_config.d/90-drover.conf": "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n",
		"etc/cloud/cloud.cfg.d/90_drover.cfg":  cloudConfig,
	}
}

// dpkgConfig makes the installation quick: nobody needs it to survive a power
// cut, and nobody reads manuals in a test's server.
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
	fmt.Fprint(&text, suite, packages(), maskedUnits(), dpkgConfig, configureScript)
	for _, name := range sortedKeys(imageFiles()) {
		fmt.Fprint(&text, name, imageFiles()[name])
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])[:12]
}
