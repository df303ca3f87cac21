package agent

import (
	"context"
	"time"

	"github.com/drover-project/drover/api/plan"
)

// standing is a plan that no step is being done of: its probes are asked, and its periodic instructions run once it is applied.
type standing struct {
	checksum string
	revision int
	plan     plan.Plan
	applied  bool
	// since is when its steps ended; zero when that is not known.
	since time.Time

	probes    *probes
	periodic  map[string]plan.PeriodicOutput
	period    time.Duration
	nextProbe time.Time
}

// judge makes what stands follow from the Secret and the journal.
func (a *Agent) judge(v view, p plan.Plan) {
	ours := v.checksum != "" && a.written.Checksum == v.checksum
	reported := v.checksum != "" && string(v.data[plan.KeyAppliedChecksum]) == v.checksum && (ours || a.written.Checksum == "")
	switch {
	case ours && a.written.Phase == Applying && (v.isOpen() || v.claims(a.written)), !ours && !reported:
		a.stand = nil
		return
	case a.stand == nil || a.stand.checksum != v.checksum:
		a.stand = &standing{checksum: v.checksum, plan: p}
		var told map[string]plan.ProbeStatus
		if reported { // by us before a restart, or by an agent before us
			told, _ = plan.DecodeProbeStatuses(v.data[plan.KeyProbeStatuses])
			a.stand.periodic, _ = plan.DecodeOutput[map[string]plan.PeriodicOutput](v.data[plan.KeyPeriodicOutput])
		}
		a.stand.probes = newProbes(p, told)
	}
	a.stand.applied, a.stand.revision, a.stand.period = reported, v.revision, defaultProbePeriod
	if period := time.Duration(count(v.data[plan.KeyProbePeriod])) * time.Second; period > 0 && period <= maxProbePeriod {
		a.stand.period = period
	}
	if ours {
		a.stand.applied, a.stand.since = a.written.Phase == Succeeded, a.written.Ended
	}
}

// attend asks probes and runs periodic instructions that are due, and returns when to look again.
func (a *Agent) attend(ctx context.Context) time.Time {
	s := a.stand
	if s == nil {
		return time.Time{}
	}
	now := a.o.Clock.Now()
	var periodic time.Time
	if s.applied && len(s.plan.PeriodicInstructions) > 0 {
		if periodic = nextPeriodic(s.plan, s.periodic, now); periodic.IsZero() {
			a.unlessOvertaken(ctx, s.checksum, s.revision, func(ctx context.Context) {
				s.periodic = a.o.Runner.runPeriodic(ctx, s.plan, s.periodic, a.o.Clock.Now)
			})
			return a.o.Clock.Now() // to report it
		}
	}
	if len(s.plan.Probes) == 0 {
		return periodic
	}
	if !now.Before(s.nextProbe) {
		changed := s.probes.round(ctx, s.plan, s.since, now)
		s.nextProbe = a.o.Clock.Now().Add(s.period)
		if changed {
			return a.o.Clock.Now()
		}
	}
	return earliest(s.nextProbe, periodic)
}
