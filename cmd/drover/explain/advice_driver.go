package explain

import v3 "github.com/drover-project/drover/api/management/v3"

const (
	nextDriverEdit = "Correct it: kubectl edit nodedriver {name}; the driver is read again as soon as spec.url, spec.checksum or spec.version changes"
	nextProbePod   = "Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name={job}"
	nextProbeLog   = "Read the probe's log: kubectl -n drover-drivers logs job/{job} --all-containers"
)

// driverAdvice is by reason of a NodeDriver's condition.
var driverAdvice = map[string]advice{
	v3.ReadyReason: {says: "The driver's kinds are served."},
	v3.InactiveReason: {waits: true, says: "The driver is not active, so it has no kinds.",
		next: []string{"Activate it: kubectl patch nodedriver {name} --type merge -p '{\"spec\":{\"active\":true}}'"}},
	v3.InvalidReason:    {says: "The NodeDriver's spec cannot be used.", next: []string{nextDriverEdit}},
	v3.ValidReason:      {says: "The spec is well formed."},
	v3.DownloadedReason: {says: "The driver was downloaded, verified and cached."},
	v3.InstalledReason:  {says: "The driver told its flags."},
	v3.CompatibleReason: {says: "The kinds agree with the driver."},
	v3.WeakChecksumReason: {says: "The checksum is of a kind that can be forged (md5 or sha1).",
		next: []string{"Put the sha256 of what spec.url serves into spec.checksum: curl -fsSL {url} | sha256sum"}},
	v3.BuiltinReason: {says: "The driver is built in; there is nothing to download."},
	v3.UnknownBuiltinReason: {says: "The URL names a built-in driver, but Drover has none of this name.",
		next: []string{"See the built-in drivers: {cmd} get drivers -o wide", "For a driver of your own, give the address of its binary in spec.url and its sha256 in spec.checksum"}},
	v3.ProbingReason: {waits: true, says: "A Job is downloading the driver and reading its flags.",
		next: []string{nextProbePod}},
	v3.ProbeFailedReason: {says: "Reading the driver failed.",
		next: []string{nextProbeLog, nextProbePod}},
	v3.DownloadFailedReason: {says: "The driver could not be downloaded.",
		next: []string{"See whether spec.url can be reached from a pod of this cluster: it may need the manager's proxy or CA settings", nextDriverEdit, nextProbeLog}},
	v3.ChecksumMismatchReason: {says: "What the URL serves is not what spec.checksum says.",
		next: []string{"Make sure that the file is the one you want before you change the checksum: curl -fsSL {url} | sha256sum", nextDriverEdit}},
	v3.NotADriverReason: {says: "What the URL serves is no docker-machine driver for Linux on this processor.",
		next: []string{"spec.url must serve an ELF binary, tar.gz or zip that holds docker-machine-driver-NAME; a web page of a login or an error is a common cause", nextDriverEdit}},
	"TooLarge": {says: "What the URL serves is larger than a driver may be.",
		next: []string{"Serve the driver's stripped binary or an archive that holds nothing else", nextDriverEdit}},
	"WrongArchitecture": {says: "The driver is not made for this cluster's processors or operating system.",
		next: []string{"Give the address of a Linux binary for the nodes' processor", nextDriverEdit}},
	"DynamicallyLinked": {says: "The driver needs a libc, and the image that Jobs run has none.",
		next: []string{"Give the address of a static build of the driver", "Or run Jobs with an image that has a libc: docs/install.md", nextDriverEdit}},
	v3.DriverUnresponsiveReason: {says: "The driver was started but did not answer in time.",
		next: []string{"Run the binary by hand: it must print its plugin version and address when started with MACHINE_PLUGIN_TOKEN set", nextProbeLog}},
	v3.FlagsInvalidReason: {says: "The driver's flags cannot become fields.",
		next: []string{"The message above names the flag; ask the driver's author", nextProbeLog}},
	v3.SchemaIncompatibleReason: {says: "The changed driver would drop or retype a field that machines use; the old kinds stay in use.",
		next: []string{"Go back to the former spec.url and spec.checksum", "Or make templates without the field the message above names, roll the machines over, and delete the old templates and configs"}},
	v3.NameTakenReason: {says: "Another NodeDriver already has kinds of this name.",
		next: []string{"See which: {cmd} get drivers", "Give this one another spec.displayName, or delete the other"}},
	v3.EstablishedReason: {says: "The kinds are served by the API."},
	v3.NotEstablishedReason: {waits: true, says: "The kinds were made; the API does not serve them yet.",
		next: []string{"Look at the definitions: kubectl get crd -l io.cattle.node_driver.name={name}", "A name conflict with another definition shows in its conditions"}},
	v3.KeptForMachinesReason: {says: "The driver is inactive; its kinds stay because machines use them.",
		next: []string{"See the machines: {cmd} get -A", "They can still be removed; the kinds go with the last one"}},
	v3.DeletionBlockedReason: {waits: true, says: "The NodeDriver is being deleted; it stays until its machines are gone, so that they can be removed.",
		next: []string{"See the machines: {cmd} get -A", "Delete those you do not need by their CAPI Machine or MachineDeployment"}},
	v3.RemovingKindsReason: {waits: true, says: "The NodeDriver is being deleted; it goes when the API server has taken its kinds away. A CRD that stays has a finalizer of somebody else's.",
		next: []string{"Look at the definitions: kubectl get crd -l io.cattle.node_driver.name={name}"}},
	v3.RancherInstalledReason: {says: "Rancher runs in this cluster and owns the NodeDrivers.",
		next: []string{"Use a cluster of its own for Drover; both must not serve the same kinds"}},
}
