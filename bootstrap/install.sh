
# This installs Drover's agent and starts it. It needs root, systemd, sha256sum, and curl or wget. It can be run again: what is right
# stays, and a running agent too. Nothing is done before all of it has been read.

say() {
	echo "drover: $*"
	[ ! -w /dev/console ] || echo "drover: $*" >/dev/console 2>/dev/null || :
}

fail() {
	say "$*"
	exit 1
}

has() { command -v "$1" >/dev/null; }

# uptime is a clock that nobody sets.
uptime() {
	read -r up _ <"$DROVER_ROOT/proc/uptime"
	echo "${up%%.*}"
}

# get URL FILE TRUST downloads; TRUST is a file of certificates, "system", or "none".
get() {
	url=$1 file=$2 by=$3
	if has curl; then
		set -- curl -fsS --proto =https --connect-timeout 20 --speed-limit 100 --speed-time 60 -o "$file"
		none=-k ca=--cacert
	elif has wget; then
		# These names only.
		export https_proxy="${https_proxy:-${HTTPS_PROXY:-}}" no_proxy="${no_proxy:-${NO_PROXY:-}}"
		set -- wget -nv --https-only --timeout=60 --tries=1 -O "$file"
		none=--no-check-certificate ca=--ca-certificate
	else
		echo "this server has neither curl nor wget"
		return 1
	fi
	case $by in
	none) set -- "$@" "$none" ;;
	system) ;;
	*) set -- "$@" "$ca" "$by" ;;
	esac
	"$@" "$url"
}

matches() { echo "$2  $1" | sha256sum -c >/dev/null 2>&1; }

# is_renewed: the manager was upgraded since. Whom TRUST verifies gives it plans, too.
is_renewed() {
	[ -e "$2" ] && [ "$4" != none ] && matches "$2" "$(get "$1.sha256" - "$4" 2>/dev/null)"
}

# verified URL FILE SUM TRUST downloads until the file has the sum.
verified() {
	pause=2 told=
	until why=$(get "$1" "$2" "$4" 2>&1) && { matches "$2" "$3" || is_renewed "$@"; }; do
		why=${why:-"what came has not the SHA-256 $3: is this the right manager?"}
		[ "$(uptime)" -lt "$deadline" ] || fail "giving up: $1: $why"
		[ "$why" = "$told" ] || say "waiting for $1: $why"
		told=$why
		sleep "$pause"
		[ "$pause" -ge 60 ] || pause=$((pause * 2))
	done
}

# put FILE TEXT writes a file, and notes a change.
put() {
	printf '%s\n' "$2" >"$1.new"
	cmp -s "$1.new" "$1" || changed=yes
	mv "$1.new" "$1"
}

# unit NAME WHAT LINES writes a unit.
unit() {
	put "$units/$1.service" "[Unit]
Description=$2
Wants=network-online.target
After=network-online.target

[Service]
$3
UMask=0077

[Install]
WantedBy=multi-user.target"
}

main() {
	set -eu
	umask 077
	changed= verified=
	deadline=$(($(uptime) + 21600))
	[ "$(id -u)" = 0 ] || fail "this must be run as root"
	has systemctl || fail "this server has no systemd, which the agent needs"
	case $(uname -m) in
	x86_64) arch=amd64 sum=$DROVER_SUM_AMD64 ;;
	aarch64) arch=arm64 sum=$DROVER_SUM_ARM64 ;;
	*) fail "no agent is available for a server of $(uname -m)" ;;
	esac
	[ -n "$sum" ] || fail "the manager has no agent for linux-$arch"
	etc=$DROVER_ROOT/etc/drover
	# An agent that is there keeps its folder, which has its key, and by hand its environment.
	folder=$(sed -n 's/.*"folder":"\([^"\\]*\)".*/\1/p' "$etc/agent.yaml" 2>/dev/null || :)
	folder=${folder:-$DROVER_FOLDER}
	env=${DROVER_ENV-$(cat "$etc/agent.env" 2>/dev/null || :)}
	known=$folder/rancher2_connection_info.json
	of=${DROVER_TOKEN-} # drover/, its plan Secret, /...
	if [ ! -e "$known" ]; then
		[ -n "$of" ] || fail "no token: see docs/endpoint.md"
	elif [ -n "$of" ]; then
		of=${of#*/} of=${of%/*}
		grep -q "\"namespace\":\"${of%/*}\",\"secretName\":\"${of#*/}\"" "$known" ||
			fail "another machine's agent is here: clean this server as docs/drivers.md tells"
	fi

	bin=$DROVER_ROOT/usr/local/bin
	if ! mkdir -p "$bin" 2>/dev/null || [ ! -w "$bin" ]; then
		bin=$DROVER_ROOT/opt/drover/bin # /usr is read-only
		mkdir -p "$bin"
	fi
	units=$DROVER_ROOT/etc/systemd/system
	mkdir -p "$etc" "$units"
	exec 9>"$etc/lock"
	! has flock || flock -n 9 || {
		say "waiting for another run of this script"
		flock 9
	}
	# A restart of the server while this waits starts it again, unless it came by a pipe.
	if [ ! -e "$units/drover-agent.service" ] && grep -qs ^DROVER_SERVER= "$0"; then
		[ "$0" = "$etc/install" ] || cp "$0" "$etc/install"
		unit drover-install "Installs Drover's agent" "ExecStart=/bin/sh $etc/install"
		systemctl enable --quiet drover-install
	fi

	trust=system
	if [ -n "$DROVER_CA_CHECKSUM" ]; then
		trust=$etc/ca.crt
		verified "$DROVER_SERVER/cacerts?checksum=$DROVER_CA_CHECKSUM" "$trust.got" "$DROVER_CA_CHECKSUM" none
		put "$trust" "$(cat "$trust.got")"
		rm "$trust.got"
	fi
	agent=$bin/drover-agent
	asset=$DROVER_SERVER/assets/drover-agent-linux-$arch
	if ! matches "$agent" "$sum" && ! is_renewed "$asset" "$agent" - "$trust"; then
		verified "$asset" "$agent.new" "$sum" "$trust"
		verified=yes
		chmod 755 "$agent.new"
		mv "$agent.new" "$agent"
		! has restorecon || restorecon "$agent"
		changed=yes
	fi
	# A registered agent deleted its token.
	[ -e "$known" ] || put "$etc/token" "$DROVER_TOKEN"
	put "$etc/agent.yaml" "$DROVER_CONFIG,\"folder\":\"$folder\"}"
	put "$etc/agent.env" "$env"
	unit drover-agent "Drover's agent" "ExecStart=$agent --config $etc/agent.yaml
EnvironmentFile=$etc/agent.env
Restart=always
RestartSec=5"
	if [ -n "$changed" ] || ! systemctl --quiet is-active drover-agent; then
		systemctl daemon-reload
		systemctl enable --quiet drover-agent
		systemctl restart drover-agent
	fi
	if [ -e "$units/drover-install.service" ]; then
		systemctl disable --quiet drover-install
		rm -f "$units/drover-install.service" "$etc/install"
	fi
	# Where the agent was there already, nothing that came yet was verified.
	[ -n "$verified" ] || why=$(get "$DROVER_SERVER/healthz" /dev/null "$trust" 2>&1) ||
		fail "the agent is installed, but by the CA certificates of this script it cannot call $DROVER_SERVER: $why"
	say "the agent is installed; journalctl -u drover-agent tells what it does"
}

main
