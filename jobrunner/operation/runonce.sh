# Runs a bootstrap script once per machine, as root: sh -s -- DIRECTORY UPLOAD HOSTNAME HOSTS, this text on standard input.
# If HOSTNAME is empty, the server keeps its own name.
#
# The script goes on when the connection breaks, for it may change the network. Whoever comes later follows the same run:
# DIRECTORY holds script, output, pid, and at the end exit-code; the directory started in it is made by the one run there ever
# is. Drover's own script alone runs again after an interruption, such as a restart, for it can. All of it is in functions, so
# that the shell has read it before anything else can read from standard input.

nap() {
	sleep 0.2 2>/dev/null || sleep 1
}

# alive: is the process with the recorded number the run, and not another one that got its number, after a restart for instance?
alive() {
	pid=$(cat "$1/pid" 2>/dev/null) || return 1
	tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$1/run"
}

# show prints what the output has grown by.
show() {
	size=$(wc -c <"$1/output" 2>/dev/null) || return 0
	[ "$size" -gt "$shown" ] || return 0
	tail -c "+$((shown + 1))" "$1/output" | head -c "$((size - shown))"
	shown=$size
}

follow() {
	while [ ! -e "$1/exit-code" ]; do
		show "$1"
		if ! alive "$1"; then
			sleep 2
			[ -e "$1/exit-code" ] && break
			show "$1"
			echo "the bootstrap script was interrupted" >&2
			grep -q '^DROVER_SERVER=' "$1/script" || return 126
			rm -rf "$1/started" "$1/pid"
			run "$1" || return 125
		fi
		nap
	done
	show "$1"
	code=$(cat "$1/exit-code")
	case $code in
	124 | 125 | 126)
		echo "the bootstrap script ended with exit code $code" >&2
		return 1
		;;
	esac
	return "$code"
}

set_hostname() {
	[ -n "$1" ] || return 0
	# sudo looks its own host up, and complains when there is none of that name.
	if ! grep -qE "[[:space:]]$1([[:space:]]|\$)" "$2" 2>/dev/null; then
		own=' # of Drover$' # an earlier machine of this host's has its line no more
		! grep -q "$own" "$2" 2>/dev/null || sed -i "/$own/d" "$2"
		echo "127.0.1.1 $1 # of Drover" >>"$2" || echo "the host name could not be written to $2" >&2
	fi
	[ "$(hostname 2>/dev/null)" != "$1" ] || return 0
	hostnamectl set-hostname "$1" 2>/dev/null || { hostname "$1" && echo "$1" >/etc/hostname; } || echo "the host name could not be set" >&2
}

run() {
	interpreter=$(sed -n '1s/^#!//p' "$1/script")
	cat >"$1/run" <<'RUN' || return 125
mkdir "$1/started" 2>/dev/null || exit 0
cd /
umask 022
set -f
echo $$ >"$1/pid"
${2:-/bin/sh} "$1/script"
code=$?
echo "$code" >"$1/exit-code.new"
mv "$1/exit-code.new" "$1/exit-code"
RUN
	if command -v setsid >/dev/null 2>&1; then
		setsid sh "$1/run" "$1" "$interpreter" </dev/null >>"$1/output" 2>&1 &
	else
		nohup sh "$1/run" "$1" "$interpreter" </dev/null >>"$1/output" 2>&1 &
	fi
	count=0
	while [ ! -s "$1/pid" ]; do
		count=$((count + 1))
		[ "$count" -gt 150 ] && return 125
		nap
	done
}

main() {
	directory=$1
	upload=$2
	umask 077
	[ "$(id -u)" = 0 ] || { rm -f "$upload"; return 124; }
	mkdir -p "$directory" || { rm -f "$upload"; return 125; }
	if [ -e "$directory/started" ]; then
		rm -f "$upload"
		echo "the bootstrap script was started before"
	else
		set_hostname "$3" "$4"
		mv -f "$upload" "$directory/script" && chmod 600 "$directory/script" && : >>"$directory/output" || { rm -f "$upload"; return 125; }
		run "$directory" || return 125
	fi
	shown=0
	follow "$directory"
}

main "$@"
exit $?
