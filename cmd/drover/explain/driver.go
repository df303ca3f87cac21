package explain

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// Driver explains a snapshot of a NodeDriver.
func Driver(s *facts.DriverSnapshot, command string) *Report {
	d := s.Driver
	all := []Fact{{"driver", d.DriverName()}, {"url", facts.ShownURL(d.Spec.URL)}}
	if d.Status.MachineKind != "" {
		all = append(all, Fact{"kind", d.Status.MachineKind}, Fact{"fields", strconv.Itoa(int(d.Status.Fields))})
	}
	if s.Machines >= 0 {
		all = append(all, Fact{"machines", strconv.Itoa(s.Machines)})
	}
	r := &Report{
		APIVersion: listing.APIVersion, Kind: Kind, Subject: "NodeDriver " + d.Name, Phase: "Inactive",
		Facts: knownFacts(append(all, Fact{"age", facts.Age(s.Now, d.CreationTimestamp.Time)})), Events: newEvents(s.Events, s.Pods), Problems: cleanAll(s.Problems), now: s.Now,
		Related: relatedJob(s.Jobs, s.Pods), Log: newLog("the probe's pod", s.Log),
	}
	if d.Spec.Active {
		r.Phase = "Active"
	}
	r.Steps = timeline(d.Status.Conditions, driverSteps)
	decideDriver(r, s)
	isReady := r.Steps[len(r.Steps)-1].State == StepDone
	if d.Spec.Active && d.Status.MachineKind == "" && r.Blocker != nil && !isReady {
		r.Phase = r.Blocker.Reason // it serves no kinds, so "Active" would mislead
	}
	if len(r.Next) == 0 && r.Blocker != nil {
		r.Next = []string{nextManager}
	}
	r.finish(command)
	return r
}

func decideDriver(r *Report, s *facts.DriverSnapshot) {
	if len(s.Driver.Status.Conditions) == 0 {
		r.Blocker = &Blocker{Reason: "NotReconciled"}
		r.Verdict = []string{"No manager has reconciled this driver yet."}
		return
	}
	step := driverBlocker(r.Steps, s.Driver)
	if step == nil {
		// A ready driver may still have a warning.
		for i := range r.Steps {
			if step := &r.Steps[i]; step.Reason == v3.WeakChecksumReason || step.Reason == v3.DoubtfulAnnotationsReason {
				r.Blocker = cmp.Or(r.Blocker, step.blocker())
				r.addStep(step)
			}
		}
		if r.Blocker == nil {
			r.Verdict = []string{"The driver is ready, and its CRDs are served."}
		}
		return
	}
	r.Blocker = step.blocker()
	if reason, message := podTrouble(s.Jobs, s.Pods, s.Events); (step.Reason == v3.ProbingReason || step.Reason == rkev1.PodNotCreatedReason) && reason != "" {
		r.reportPod(reason, message, s.Pods, advice.Words{"podns": fallbackNamespace, "job": s.Jobs[0].Name})
		return
	}
	r.addStep(step)
	probing := step.Name == v3.DownloadedCondition || step.Name == v3.InstalledCondition
	if n := s.Driver.Status.ProbeAttempts; n > 0 && probing {
		r.Verdict = append(r.Verdict, fmt.Sprintf("Attempts to read the driver so far: %d.", n))
	}
}

// driverBlocker is the step that keeps Ready from being True; nil when it is.
func driverBlocker(steps []Step, d *v3.NodeDriver) *Step {
	ready := &steps[len(steps)-1]
	if ready.State == StepDone {
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
