package explain

import (
	"fmt"
	"strconv"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// Driver explains what a snapshot of a NodeDriver tells.
func Driver(s *facts.DriverSnapshot, command string) *Report {
	d := s.Driver
	r := &Report{
		APIVersion: listing.APIVersion, Kind: Kind, Subject: "NodeDriver " + d.Name, Phase: "Inactive",
		Facts: driverFacts(s), Events: newEvents(s.Events), Problems: cleanAll(s.Problems), now: s.Now,
		Related: relatedJob(s.Jobs, s.Pods), Log: newLog("the probe's pod", s.Log),
	}
	if d.Spec.Active {
		r.Phase = "Active"
	}
	r.Steps = timeline(d.Status.Conditions, driverSteps, driverAdvice)
	w := words{"cmd": command, "name": d.Name, "url": facts.ShownURL(d.Spec.URL), "job": "", "pod": "", "node": "", "podns": fallbackNamespace, "ns": fallbackNamespace}
	if len(s.Jobs) > 0 {
		w["job"] = s.Jobs[0].Name
	}
	decideDriver(r, s, w)
	if len(r.Next) == 0 && r.Blocker != nil {
		r.Next = append(r.Next, w.fill(nextManager))
	}
	r.finish()
	return r
}

func driverFacts(s *facts.DriverSnapshot) []Fact {
	d := s.Driver
	list := []Fact{{"driver", d.DriverName()}, {"url", facts.ShownURL(d.Spec.URL)}}
	if d.Status.MachineKind != "" {
		list = append(list, Fact{"kind", d.Status.MachineKind}, Fact{"fields", strconv.Itoa(int(d.Status.Fields))})
	}
	if s.Machines >= 0 {
		list = append(list, Fact{"machines", strconv.Itoa(s.Machines)})
	}
	return knownFacts(append(list, Fact{"age", age(s.Now, d.CreationTimestamp.Time)}))
}

func decideDriver(r *Report, s *facts.DriverSnapshot, w words) {
	if len(s.Driver.Status.Conditions) == 0 {
		r.Blocker = &Blocker{Reason: "NotReconciled"}
		r.say(advice{says: "No manager has looked at this driver yet.", next: []string{nextManager}}, w)
		return
	}
	step := driverBlocker(r.Steps, s.Driver)
	if step == nil {
		r.say(driverAdvice[v3.ReadyReason], w)
		return
	}
	r.Blocker = &Blocker{Step: step.Name, Reason: step.Reason, Message: step.Message}
	if step.Reason == v3.ProbingReason && probeTrouble(r, s, w) {
		return
	}
	about, known := driverAdvice[step.Reason]
	if !known {
		about = unlistedDriverAdvice(step)
	}
	r.say(about, w)
	if step.Message != "" {
		r.Verdict = append(r.Verdict, step.Message)
	}
	probing := step.Name == v3.DownloadedCondition || step.Name == v3.InstalledCondition
	if n := s.Driver.Status.ProbeAttempts; n > 0 && probing {
		r.Verdict = append(r.Verdict, fmt.Sprintf("Attempts to read the driver so far: %d.", n))
	}
}

// unlistedDriverAdvice is for reasons that a probe's Job gave and that are not the driver's alone.
func unlistedDriverAdvice(step *Step) advice {
	says := failureAdvice(step.Reason).says
	if says == "" {
		says = fmt.Sprintf("The step %s is not done: %s.", step.Name, step.Reason)
	}
	return advice{says: says, next: []string{nextProbeLog, nextProbePod}}
}

// driverBlocker is the step to explain: what keeps Ready from being True, else the warning of a driver that is ready.
func driverBlocker(steps []Step, d *v3.NodeDriver) *Step {
	ready := &steps[len(steps)-1]
	if ready.State == StepDone {
		for i := range steps {
			if steps[i].Reason == v3.WeakChecksumReason {
				return &steps[i]
			}
		}
		return nil
	}
	// Ready's own reason says more than a step where no step is at fault: inactive, being deleted.
	if !d.Spec.Active || d.DeletionTimestamp != nil {
		return ready
	}
	if step := firstReached(steps[:len(steps)-1]); step != nil && step.Reason != "" {
		return step
	}
	return ready
}

// probeTrouble reports what keeps the probe's pod from running, if anything does.
func probeTrouble(r *Report, s *facts.DriverSnapshot, w words) bool {
	reason, message := podTrouble(s.Jobs, s.Pods, s.Events)
	if reason == "" {
		return false
	}
	if len(s.Pods) > 0 {
		w["pod"], w["node"] = s.Pods[0].Name, s.Pods[0].Spec.NodeName
	}
	r.Blocker.Reason, r.Blocker.Message = reason, clean(message)
	r.say(podAdvice[reason], w)
	if message != "" {
		r.Verdict = append(r.Verdict, clean(message))
	}
	return true
}

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
	v3.TooLargeReason: {says: "What the URL serves is larger than a driver may be.",
		next: []string{"Serve the driver's stripped binary or an archive that holds nothing else", nextDriverEdit}},
	v3.WrongArchitectureReason: {says: "The driver is not made for this cluster's processors or operating system.",
		next: []string{"Give the address of a Linux binary for the nodes' processor", nextDriverEdit}},
	v3.DynamicallyLinkedReason: {says: "The driver needs a libc, and the image that Jobs run has none.",
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
