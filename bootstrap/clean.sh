
# What follows takes off a host what came to it for one machine: Drover's agent, k3s or RKE2 with all their data, and last the claim, so that
# another machine can have the host. It needs root, and can be run again at any time. A host or an agent of another machine's is left alone: then,
# or when something cannot be taken off, the claim stays. Nothing is done before all of it has been read.
#
# The first argument is the part that is to be done: all without one. By plan, where the agent itself runs this, it is by-plan, which leaves the agent
# there to report it and a unit of systemd for the rest, whose part is leave.

say() { echo "drover: $*"; }

# fail CODE TEXT ends with 3 where a person has to look, with 1 where another try may help.
fail() {
	code=$1
	shift
	say "$*"
	exit "$code"
}

# no_work TEXT ends where nothing of this machine's is to be taken off. By plan it is no success: the agent that runs this, and would report it, stays.
no_work() {
	[ "$part" != by-plan ] || fail 3 "$*"
	say "$*"
	exit 0
}

is_path() {
	case $1 in
	*//* | */../* | */.. | */./* | */.) return 1 ;;
	/?*/?*) return 0 ;;
	esac
	return 1
}

# in_mounts prints a folder as it is in the table of mounts.
in_mounts() {
	real=$(cd "$DROVER_ROOT$1" && pwd -P) || fail 1 "$1 cannot be entered"
	printf '%s\n' "$real" | sed 's/ /\\040/g'
}

# without_mounts FOLDER OWN... fails when something is mounted below a folder, for its files would be removed; but not for what begins with OWN there, nor
# for what is in memory, as the kubelet's Secrets are.
without_mounts() {
	[ -d "$DROVER_ROOT$1" ] || return 0
	folder=$(in_mounts "$1")
	shift
	while read -r _ at type _; do
		[ "$type" != tmpfs ] || continue
		for own; do
			case $at in "$folder/$own"*) continue 2 ;; esac
		done
		case $at in "$folder"/*) fail 1 "$at is mounted below $folder, which is to be removed: unmount it" ;; esac
	done <"$DROVER_ROOT/proc/mounts"
}

# take_away FOLDER NAME... removes what is named in a folder, and the folder if nothing else is in it.
take_away() {
	[ -d "$DROVER_ROOT$1" ] || return 0
	without_mounts "$1"
	folder=$DROVER_ROOT$1
	shift
	for name; do rm -rf "${folder:?}/$name" || fail 1 "$folder/$name could not be removed"; done
	rmdir "$folder" 2>/dev/null || say "$folder has files that are not ours, and stays"
}

field() { printf '%s' "$connection" | sed -n "s/.*\"$1\":\"\([^\"\\\\]*\)\".*/\1/p"; }

# text prints a file, and no more of it than any of ours has: whoever is root on the host can have put anything in its place.
text() { [ ! -f "$1" ] || head -c 1048576 "$1"; }

# tokens prints which plan Secret the token in an install script is for.
tokens() { text "$1" | sed -n "s|^DROVER_TOKEN='drover/\(.*\)/[^/]*'\$|\1|p"; }

# followed prints which plan Secret the agent on this host follows, as namespace/name: nothing if it never came to have one.
followed() {
	if [ -e "$DROVER_ROOT$agent/rancher2_connection_info.json" ]; then
		connection=$(text "$DROVER_ROOT$agent/rancher2_connection_info.json" | tr -d ' \t\n')
		echo "$(field namespace)/$(field secretName)"
	elif [ -e "$etc/install" ]; then
		tokens "$etc/install"
	elif [ -e "$etc/token" ]; then
		text "$etc/token" | sed -n 's|^drover/\(.*\)/[^/]*$|\1|p'
	fi
}

# find_data DISTRIBUTION
find_data() {
	config=$DROVER_ROOT/etc/rancher/$1/config.yaml.d/50-rancher.yaml
	data=$(text "$config" | sed -n 's/^ *"data-dir": *"\([^"\\]*\)".*/\1/p')
	data=${data:-/var/lib/rancher/$1}
	case $data in
	*[[:space:]]*) false ;; # the uninstallers do not quote what they remove
	*) is_path "$data" ;;
	esac || fail 3 "the data directory $data of $1 is none that can be removed"
}

# No folder that k3s-uninstall.sh, rke2-uninstall.sh or this removes has a mount of somebody else's: they remove what is in it, too. What the kubelet and
# containerd mount is known: uninstall ends the one's, and some of containerd's snapshotters mount below the data directory.
find_mounts() {
	for distribution in k3s rke2; do
		find_data "$distribution"
		without_mounts "$data" agent/containerd/
	done
	without_mounts /var/lib/kubelet pods plugins
	for removed in /etc/rancher/k3s /etc/rancher/rke2 /etc/rancher/node /etc/cni /opt/cni/bin /run/flannel /var/lib/cni /var/lib/rancher/capr \
		/var/log/calico /var/log/containers /var/log/pods; do
		without_mounts "$removed"
	done
}

# end_volumes FOLDER fails when something stays mounted below the kubelet's folder after all pods have been killed: k3s-killall.sh and rke2-killall.sh tell
# nobody which volumes they could not unmount, or do not try, and the uninstallers remove what is in those.
end_volumes() {
	[ -d "$DROVER_ROOT$1" ] || return 0
	folder=$(in_mounts "$1")
	while read -r _ at _; do
		case $at in "$folder"/*) echo "$at" ;; esac
	done <"$DROVER_ROOT/proc/mounts" | sort -r | while read -r at; do umount -f "$at" || :; done
	without_mounts "$1"
}

# uninstall DISTRIBUTION VARIABLE; the variable is how its scripts learn where its data is.
uninstall() {
	find_data "$1"
	for script in "/usr/local/bin/$1-uninstall.sh" "/usr/local/bin/$1-agent-uninstall.sh" "/usr/bin/$1-uninstall.sh" "/opt/$1/bin/$1-uninstall.sh"; do
		[ -x "$DROVER_ROOT$script" ] || continue
		killall=${script%/*}/$1-killall.sh
		if [ -x "$DROVER_ROOT$killall" ]; then
			say "running $killall"
			env "$2=$data" "$DROVER_ROOT$killall" 9<&- || say "$killall ended with exit code $?"
		fi
		end_volumes /var/lib/kubelet
		say "running $script"
		env "$2=$data" "$DROVER_ROOT$script" 9<&- || fail 1 "$script ended with exit code $?"
	done
	take_away "$data" agent server data storage bin lock restart_stamp
	rm -rf "$DROVER_ROOT/etc/rancher/$1"
}

# end_script ends the bootstrap script, which may wait for its manager for hours: it would go on on another machine's host.
end_script() {
	pid=$(text "$DROVER_RUN/pid")
	[ -n "$pid" ] || return 0
	tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$DROVER_RUN/run" || return 0 # another process got its number
	say "ending the bootstrap script, which still runs"
	echo 1 >"$DROVER_RUN/exit-code" # so that nobody who follows it has it run again
	# Where there is no setsid it leads no group: then it and what it runs.
	kill -9 "-$pid" 2>/dev/null || kill -9 "$pid" $(sed -n "s/^\([0-9]*\) (.*) [A-Z] $pid .*/\1/p" /proc/[0-9]*/stat 2>/dev/null) ||
		fail 1 "the bootstrap script still runs and could not be ended: process $pid"
}

remove_agent() {
	if [ -e "$unit" ]; then
		rm -f "$unit"
		systemctl daemon-reload
	fi
	rm -f "$DROVER_ROOT/usr/local/bin/drover-agent"* "$DROVER_ROOT/opt/drover/bin/drover-agent"*
	[ -z "$agent" ] || take_away "$agent" work images agent.key rancher2_connection_info.json journal.json journal.json.unreadable
	rm -rf "$etc"
}

clean() {
	etc=$DROVER_ROOT/etc/drover
	units=$DROVER_ROOT/etc/systemd/system
	unit=$units/drover-agent.service
	end_script
	[ -d "$etc" ] || return 0
	agent=
	if [ -e "$etc/agent.yaml" ]; then # else the script did not come so far
		agent=$(text "$etc/agent.yaml" | sed -n 's/.*"folder":"\([^"\\]*\)".*/\1/p')
		is_path "$agent" || fail 3 "$etc/agent.yaml does not say where the agent's folder is"
	fi
	brought=$(tokens "$DROVER_RUN/script")
	follows=$(followed)
	if [ -n "$follows" ] && [ "$follows" != "$brought" ]; then
		fail 3 "the agent on this host follows the plan Secret $follows, and ${brought:-none} was this machine's: it belongs to another machine"
	fi
	if [ -z "$brought" ]; then
		say "this machine's bootstrap script did not install an agent, so that nothing but the claim is taken off"
		return 0
	fi
	had_plan=
	[ ! -e "$DROVER_ROOT$agent/journal.json" ] && [ ! -e "$DROVER_ROOT$agent/journal.json.unreadable" ] || had_plan=yes
	[ -z "$agent" ] || without_mounts "$agent"
	[ -z "$had_plan" ] || find_mounts
	# From here on nothing starts again by itself.
	if [ -e "$units/drover-install.service" ]; then
		systemctl disable --quiet --now drover-install || fail 1 "the installation of the agent could not be ended"
		rm -f "$units/drover-install.service"
	fi
	[ "$part" = by-plan ] || [ ! -e "$unit" ] || systemctl disable --quiet --now drover-agent || fail 1 "the agent could not be stopped"
	if [ -n "$had_plan" ]; then
		uninstall k3s K3S_DATA_DIR
		uninstall rke2 RKE2_DATA_DIR
		take_away /etc/rancher/agent registries.yaml
		rm -rf "$DROVER_ROOT/etc/rancher/node" "$DROVER_ROOT/var/lib/rancher/capr"
		rmdir "$DROVER_ROOT/var/lib/rancher" "$DROVER_ROOT/etc/rancher" 2>/dev/null || :
	fi
	[ "$part" = by-plan ] || remove_agent
}

# leave_later has the rest done when the agent has reported, whatever ends before.
leave_later() {
	cp "$0" "$DROVER_RUN/clean.new"
	mv "$DROVER_RUN/clean.new" "$DROVER_RUN/clean"
	printf '%s\n' "[Unit]
Description=Takes Drover's agent off this host
ConditionPathExists=$DROVER_RUN/clean

[Service]
ExecStart=/bin/sh $DROVER_RUN/clean leave
Restart=on-failure
RestartSec=60
UMask=0077

[Install]
WantedBy=multi-user.target" >"$leaving.new"
	mv "$leaving.new" "$leaving"
	systemctl daemon-reload
	systemctl enable --quiet drover-clean
	systemctl start --no-block drover-clean
}

# leave waits for the mark that the report was written, and does the rest in a shell of its own; then its unit goes. Somebody else may have cleaned the host
# meanwhile, over SSH.
leave() {
	while [ -e "$DROVER_RUN/clean" ] && [ ! -e "$DROVER_RUN/reported" ]; do sleep 2; done
	[ ! -e "$DROVER_RUN/clean" ] || /bin/sh "$DROVER_RUN/clean" last
	rm -rf "$DROVER_RUN" # without which the unit does not start
	rmdir "${DROVER_RUN%/*}" "${DROVER_CLAIM%/*}" 2>/dev/null || :
	systemctl disable --quiet drover-clean
	rm -f "$leaving"
	systemctl daemon-reload
}

main() {
	set -eu
	umask 077
	part=${1:-all} leaving=$DROVER_ROOT/etc/systemd/system/drover-clean.service
	[ "$(id -u)" = 0 ] || exit 124
	if [ "$part" = leave ]; then
		leave
		exit 0
	fi
	[ -f "$DROVER_CLAIM" ] || no_work "the host has no claim, so that nothing is taken off it"
	# A run whose connection broke may still be at it: it must have ended before the host is another's.
	exec 9<"$DROVER_CLAIM"
	! command -v flock >/dev/null || flock -w 300 9 || fail 1 "an earlier cleaning of this host has not ended"
	[ "$(text "$DROVER_CLAIM" | sed -n 1p)" = "$DROVER_UID" ] || no_work "the host is another machine's now, so that nothing is taken off it"
	clean
	if [ "$part" = by-plan ]; then
		leave_later
		say "the host is clean but for its agent, which goes when it has reported this"
		exit 0
	fi
	[ "$part" = last ] || rm -rf "$DROVER_RUN" # leave needs it until the claim is gone
	rm -f "$DROVER_CLAIM"
	rmdir "${DROVER_RUN%/*}" "${DROVER_CLAIM%/*}" 2>/dev/null || :
	say "the host is clean"
}

main "$@"
