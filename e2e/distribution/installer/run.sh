#!/bin/sh
# Installs localkube as k3s and starts it. Restarts it if RESTART_STAMP or its environment file differs from the last run, as the installer of k3s
# does. INSTALL_K3S_EXEC is agent on a worker; INSTALL_K3S_SKIP_START leaves out the start.
set -eu
here=${CATTLE_AGENT_EXECUTION_PWD:-$(dirname "$0")}
data=${K3S_DATA_DIR:-/var/lib/rancher/k3s}
stamp_file=$data/restart_stamp
unit=k3s
[ "${INSTALL_K3S_EXEC:-server}" != agent ] || unit=k3s-agent

# put FILE PLACE: as a whole, for what is running may be in its place.
put() {
	cmp -s "$here/$1" "$2" && return
	cp "$here/$1" "$2.new" || { # a partial one would keep the disk full
		rm -f "$2.new"
		exit 1
	}
	mv "$2.new" "$2"
}
put k3s /usr/local/bin/k3s
put k3s-killall.sh /usr/local/bin/k3s-killall.sh
put k3s-uninstall.sh /usr/local/bin/k3s-uninstall.sh
put "$unit.service" "/etc/systemd/system/$unit.service"
env_file=/etc/systemd/system/$unit.service.env
(
	umask 077
	env | grep -E '^(K3S_|CONTAINERD_|NO_PROXY=|HTTPS?_PROXY=|no_proxy=|https?_proxy=)' | sort >"$env_file" || true
)
systemctl daemon-reload
systemctl enable --quiet "$unit"
[ -z "${INSTALL_K3S_SKIP_START:-}" ] || exit 0

mkdir -p "$data"
stamp="${RESTART_STAMP:-} $(sha256sum <"$env_file")"
if [ -n "${RESTART_STAMP:-}" ] && [ "$(cat "$stamp_file" 2>/dev/null)" = "$stamp" ] && systemctl is-active --quiet "$unit"; then
	echo "$unit runs, and has nothing to start again for"
	exit 0
fi
since=$(date +%s)
if ! systemctl restart "$unit"; then
	echo "$unit did not start:"
	journalctl --unit "$unit" --since "@$since" --identifier k3s --output cat --lines 40 --no-pager
	exit 1
fi
echo "$stamp" >"$stamp_file"
