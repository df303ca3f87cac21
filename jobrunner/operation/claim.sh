# Keeps a host that was there before for one machine, as root, this text on standard input:
#   sh -s -- take FILE UID MACHINE CLUSTER    prints the claim that the host has then
#   sh -s -- release FILE UID                 removes it if it is that machine's
#
# The claim has a line each for the machine's UID, its namespace and name, and its Cluster. It is written beside its place and
# linked there, so that of two machines one gets the host and nobody reads half a claim.

main() {
	umask 077
	[ "$(id -u)" = 0 ] || return 124
	if [ "$1" = release ]; then
		[ "$(sed -n 1p "$2" 2>/dev/null)" != "$3" ] || rm -f "$2"
		return
	fi
	mkdir -p "$(dirname "$2")" || return 125
	printf '%s\n' "$3" "$4" "$5" >"$2.$3" || return 125
	ln "$2.$3" "$2" 2>/dev/null
	rm -f "$2.$3"
	cat "$2" || return 125
}

main "$@"
exit $?
