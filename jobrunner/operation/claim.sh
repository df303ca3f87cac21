# Claims an existing host for one machine, as root, this text on standard input: sh -s -- FILE UID MACHINE CLUSTER. It prints the claim
# that the host has then, and nothing if something else is in its place.
#
# The claim has a line each for the machine's UID, its namespace and name, and its Cluster. It is written beside its place and
# linked there, so that of two machines one gets the host and nobody reads half a claim. The script that cleans the host removes it.
#
# A host without a claim that already has a Kubernetes is not claimed: the script writes nothing, prints what it found, and ends with
# exit code 123. A host with a claim is not checked, because its machine brought the Kubernetes.

# in_use prints a line for each part of a Kubernetes on the host: its services, its data, its configuration. Images and manifests that
# an administrator put there for the first start are not a Kubernetes.
in_use() {
	root=${DROVER_ROOT:-}
	for folder in /etc/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system; do
		[ ! -L "$root${folder%/systemd/system}" ] || continue # /lib is a link to /usr/lib
		for unit in "$root$folder"/*.service; do
			! grep -qsE '^ExecStart=[^ ]*/(k3s|rke2)( |$)' "$unit" || echo "${unit#"$root"}"
		done
	done
	for data in /var/lib/rancher/k3s /var/lib/rancher/rke2; do
		for part in server/db server/tls server/cred server/token agent/containerd agent/kubelet.kubeconfig; do
			[ ! -e "$root$data/$part" ] || echo "$data/$part"
		done
	done
	for folder in /etc/rancher/k3s /etc/rancher/rke2 /etc/rancher/node; do
		[ -z "$(ls -A "$root$folder" 2>/dev/null)" ] || echo "$folder"
	done
	[ ! -e "$root/etc/kubernetes/kubelet.conf" ] || echo /etc/kubernetes/kubelet.conf # kubeadm's
}

main() {
	umask 077
	[ "$(id -u)" = 0 ] || return 124
	if [ ! -e "$1" ]; then
		found=$(in_use)
		[ -z "$found" ] || [ -e "$1" ] || { # a machine that has claimed it meanwhile may have brought what was found
			printf '%s\n' "$found"
			return 123
		}
	fi
	mkdir -p "$(dirname "$1")" || return 125
	printf '%s\n' "$2" "$3" "$4" >"$1.$2" || return 125
	[ -d "$1" ] || ln "$1.$2" "$1" 2>/dev/null
	rm -f "$1.$2"
	[ -f "$1" ] || return 0 # nothing is said of what is no file
	head -c 4096 "$1" || return 125 # which whoever is root may have made endless
}

main "$@"
exit $?
