#!/bin/sh
# Removes localkube and all it had from this machine.
set -eu
data=/var/lib/rancher/k3s
for unit in k3s k3s-agent; do
	file=/etc/systemd/system/$unit.service.env
	[ ! -e "$file" ] || data=$(sed -n 's/^K3S_DATA_DIR=//p' "$file" | grep . || echo "$data")
done
/usr/local/bin/k3s-killall.sh
for unit in k3s k3s-agent; do
	systemctl disable --quiet "$unit" 2>/dev/null || true
	rm -f "/etc/systemd/system/$unit.service" "/etc/systemd/system/$unit.service.env"
done
systemctl daemon-reload
find /var/lib/containerd -mindepth 1 -delete
rm -rf "$data" /etc/rancher/k3s /run/k3s
rm -f /usr/local/bin/k3s /usr/local/bin/k3s-killall.sh /usr/local/bin/k3s-uninstall.sh
