# Keeps a host that was there before for one machine, as root, this text on standard input: sh -s -- FILE UID MACHINE CLUSTER. It prints the claim
# that the host has then, and nothing if something else is in its place.
#
# The claim has a line each for the machine's UID, its namespace and name, and its Cluster. It is written beside its place and
# linked there, so that of two machines one gets the host and nobody reads half a claim. The script that cleans the host removes it.

main() {
	umask 077
	[ "$(id -u)" = 0 ] || return 124
	mkdir -p "$(dirname "$1")" || return 125
	printf '%s\n' "$2" "$3" "$4" >"$1.$2" || return 125
	[ -d "$1" ] || ln "$1.$2" "$1" 2>/dev/null
	rm -f "$1.$2"
	[ -f "$1" ] || return 0 # nothing is said of what is no file
	head -c 4096 "$1" || return 125 # which whoever is root may have made endless
}

main "$@"
exit $?
