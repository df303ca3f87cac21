#!/bin/sh
# Stops localkube and takes its pods, mounts, rules and routes off this machine. Its data stays.
set -eu
data=/var/lib/rancher/k3s
for unit in k3s k3s-agent; do
	file=/etc/systemd/system/$unit.service.env
	[ ! -e "$file" ] || data=$(sed -n 's/^K3S_DATA_DIR=//p' "$file" | grep . || echo "$data")
	systemctl stop "$unit" 2>/dev/null || true
done
k3s cleanup "$data"
