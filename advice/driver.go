package advice

import (
	v3 "github.com/drover-project/drover/api/management/v3"
)

// Driver is what advice names of a NodeDriver.
type Driver struct {
	// URL is the driver's, without a password.
	Name, URL string
	// Job of the last probe; empty when there was none.
	Job string
}

// On is what to do about a reason of a NodeDriver's condition; what a probe's Job gave as its reason may be none of the driver's own.
func (d Driver) On(reason string) []string {
	next, known := drivers[reason]
	if !known {
		next = []string{nextProbeLog, nextProbePod}
	}
	return Words{"name": d.Name, "url": d.URL, "job": d.Job}.Fill(next...)
}

const (
	nextCorrect  = "Correct it, and the driver is read again as soon as spec.url, spec.checksum or spec.version changes: kubectl edit nodedriver {name}"
	nextProbePod = "Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name={job}"
	nextProbeLog = "Read the probe's log: kubectl -n drover-drivers logs job/{job} --all-containers"
	nextMachines = "See the machines: drover get -A"
	nextCRDs     = "Look at the definitions: kubectl get crd -l io.cattle.node_driver.name={name}"
)

// drivers is by reason of a NodeDriver's condition.
var drivers = map[string][]string{
	v3.ReadyReason: nil, v3.ValidReason: nil, v3.DownloadedReason: nil, v3.InstalledReason: nil, v3.CompatibleReason: nil, v3.BuiltinReason: nil, v3.EstablishedReason: nil,
	v3.InactiveReason:            {"Activate it: kubectl patch nodedriver {name} --type merge -p '{\"spec\":{\"active\":true}}'"},
	v3.InvalidReason:             {nextCorrect},
	v3.WeakChecksumReason:        {"Put the sha256 of what spec.url serves into spec.checksum: curl -fsSL {url} | sha256sum"},
	v3.DoubtfulAnnotationsReason: {"Correct the annotation that the message above names, or add the one that it asks for: kubectl edit nodedriver {name}"},
	v3.UnknownBuiltinReason: {"See the built-in drivers: drover get drivers -o wide",
		"For a driver of your own, give the address of its binary in spec.url and its sha256 in spec.checksum"},
	v3.ProbingReason:           {nextProbePod},
	v3.ProbeFailedReason:       {nextProbeLog, nextProbePod},
	v3.DownloadFailedReason:    {"See whether spec.url can be reached from a pod of this cluster: it may need the manager's proxy or CA settings", nextCorrect, nextProbeLog},
	v3.ChecksumMismatchReason:  {"Make sure that the file is the one you want before you change the checksum: curl -fsSL {url} | sha256sum", nextCorrect},
	v3.NotADriverReason:        {"spec.url must serve an ELF binary, tar.gz or zip that holds docker-machine-driver-NAME; a web page of a login or an error is a common cause", nextCorrect},
	v3.TooLargeReason:          {"Serve the driver's stripped binary or an archive that holds nothing else", nextCorrect},
	v3.WrongArchitectureReason: {"Give the address of a Linux binary for the nodes' processor", nextCorrect},
	v3.DynamicallyLinkedReason: {"Give the address of a static build of the driver", "Or run Jobs with an image that has a libc: docs/install.md", nextCorrect},
	v3.DriverUnresponsiveReason: {"If it did not start, run the binary by hand: it must print its address when started with MACHINE_PLUGIN_TOKEN=42",
		"If it started and did not tell its flags, ask its author: GetCreateFlags must answer at once, without network and credential", nextProbeLog},
	v3.FlagsInvalidReason: {"The message above names the flag; where it is about an annotation of the NodeDriver, such as defaults, correct that, else ask the driver's author", nextProbeLog},
	v3.SchemaIncompatibleReason: {"Go back to the former spec.url and spec.checksum",
		"Or make templates without the field the message above names, roll the machines over, and delete the old templates and configs"},
	v3.NameTakenReason:        {"See which: drover get drivers", "Give this one another spec.displayName, or delete the other"},
	v3.NotEstablishedReason:   {nextCRDs, "A name conflict with another definition shows in its conditions"},
	v3.KeptForMachinesReason:  {nextMachines, "They can still be removed; the kinds go with the last one"},
	v3.DeletionBlockedReason:  {nextMachines, "Delete those you do not need by their CAPI Machine or MachineDeployment"},
	v3.RemovingKindsReason:    {nextCRDs},
	v3.RancherInstalledReason: {"Use a cluster of its own for Drover; both must not serve the same kinds"},
}
