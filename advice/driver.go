package advice

import (
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Driver holds the names for advice about a NodeDriver.
type Driver struct {
	// URL is the driver's, without a password.
	Name, URL string
	// Job of the last probe; empty without a probe.
	Job string
}

// On returns the advice for a reason of a NodeDriver's condition; a reason from a probe's Job may
// be unknown here.
func (d Driver) On(reason string) []string {
	next, known := drivers[reason]
	if !known {
		next = []string{nextProbeLog, nextProbePod}
	}
	return Words{"name": d.Name, "url": d.URL, "job": d.Job}.Fill(next...)
}

const (
	nextCorrect  = "Correct it. Drover reads the driver again when spec.url, spec.checksum or spec.version changes: kubectl edit nodedriver {name}"
	nextProbePod = "Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name={job}"
	nextProbeLog = "Read the probe's log: kubectl -n drover-drivers logs job/{job} --all-containers"
	nextMachines = "List the machines: drover get -A"
	nextCRDs     = "List the CRDs: kubectl get crd -l io.cattle.node_driver.name={name}"
)

// drivers holds the advice by reason of a NodeDriver's condition.
var drivers = map[string][]string{
	v3.ReadyReason: nil, v3.ValidReason: nil, v3.DownloadedReason: nil, v3.InstalledReason: nil, v3.CompatibleReason: nil, v3.BuiltinReason: nil, v3.EstablishedReason: nil,
	v3.InactiveReason:            {"Activate it: kubectl patch nodedriver {name} --type merge -p '{\"spec\":{\"active\":true}}'"},
	v3.InvalidReason:             {nextCorrect},
	v3.WeakChecksumReason:        {"Set spec.checksum to the SHA-256 of the file at spec.url: curl -fsSL {url} | sha256sum"},
	v3.DoubtfulAnnotationsReason: {"Correct or add the annotation that the message above names: kubectl edit nodedriver {name}"},
	v3.UnknownBuiltinReason: {"List the built-in drivers: drover get drivers -o wide",
		"For your own driver, set spec.url to the address of its binary and spec.checksum to its SHA-256"},
	v3.ProbingReason:           {nextProbePod},
	rkev1.PodNotCreatedReason:  {"See why in the events of the probe's Job: kubectl -n drover-drivers describe job {job}", "Correct the ResourceQuota, LimitRange or policy that the event names. Drover's pods comply with the restricted Pod Security Standard"},
	v3.ProbeFailedReason:       {nextProbeLog, nextProbePod},
	v3.DownloadFailedReason:    {"Check whether a pod of this cluster can reach spec.url. It may need the manager's proxy or CA settings", nextCorrect, nextProbeLog},
	v3.ChecksumMismatchReason:  {"Verify that the file is the intended one before you change the checksum: curl -fsSL {url} | sha256sum", nextCorrect},
	v3.NotADriverReason:        {"spec.url must serve an ELF binary, or a tar.gz or zip archive that contains docker-machine-driver-NAME. A common cause is a login page or an error page", nextCorrect},
	v3.TooLargeReason:          {"Serve the stripped binary of the driver, or an archive that contains only that binary", nextCorrect},
	v3.WrongArchitectureReason: {"Set spec.url to a Linux binary for the CPU architecture of the nodes", nextCorrect},
	v3.DynamicallyLinkedReason: {"Set spec.url to a statically linked build of the driver", "Or run Jobs with an image that includes a libc (docs/install.md)", nextCorrect},
	v3.DriverUnresponsiveReason: {"If it did not start, run the binary by hand with MACHINE_PLUGIN_TOKEN=42. It must print its address",
		"If it started but did not return its flags, ask the driver's author. GetCreateFlags must return immediately, without network access or credentials", nextProbeLog},
	v3.FlagsInvalidReason: {"The message above names the flag. If it names an annotation of the NodeDriver, such as defaults, correct the annotation. Otherwise ask the driver's author", nextProbeLog},
	v3.SchemaIncompatibleReason: {"Restore the previous spec.url and spec.checksum",
		"Or create templates without the field that the message above names, roll out the machines, and delete the old templates and configs"},
	v3.NameTakenReason:        {"Find the other driver: drover get drivers", "Change spec.displayName of this driver, or delete the other driver"},
	v3.NotEstablishedReason:   {nextCRDs, "A name conflict with another CRD shows in the CRD's conditions"},
	v3.KeptForMachinesReason:  {nextMachines, "These machines can still be deleted. The CRDs are removed with the last one"},
	v3.DeletionBlockedReason:  {nextMachines, "Delete the machines that are not needed by deleting their CAPI Machine or MachineDeployment"},
	v3.RemovingKindsReason:    {nextCRDs},
	v3.RancherInstalledReason: {"Run Drover in a separate cluster. Rancher and Drover must not both serve these kinds"},
}
