package agent

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/drover-project/drover/api/plan"
)

// standing is a plan that no step is being done of: its probes are asked, and its periodic
// instructions run once it is applied.
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

// judge computes the periodic instructions and probes from the Secret and the journal.
func (a *Agent) judge(v view, p plan.Plan) {
	ours := v.checksum != "" && a.written.Checksum == v.checksum
	reported := v.checksum != "" && string(v.data[plan.KeyAppliedChecksum]) == v.checksum && (ours || a.written.Checksum == "")
	switch {
	case ours && a.written.Phase == Applying && (v.isOpen() || v.claims(a.written)), !ours && !reported:
		a.stand = nil
		return
	case a.stand == nil || a.stand.checksum != v.checksum:
		a.stand = &standing{checksum: v.checksum, plan: p}
		var previous map[string]plan.ProbeStatus
		if reported { // by us before a restart, or by an agent before us
			previous, _ = plan.DecodeProbeStatuses(v.data[plan.KeyProbeStatuses])
			a.stand.periodic, _ = plan.DecodeOutput[map[string]plan.PeriodicOutput](v.data[plan.KeyPeriodicOutput])
		}
		a.stand.probes = newProbes(p, previous)
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

const (
	// periodicTimeout ends a periodic instruction that hangs.
	periodicTimeout = 10 * time.Minute
	// A periodic instruction that failed waits for so long for each failure in a row, up to
	// maxPeriodicWaits of them (§7.3).
	periodicWait     = 30 * time.Second
	maxPeriodicWaits = 6
	// maxPeriodicBytes of each output are kept, its end.
	maxPeriodicBytes = 32 << 10
)

// periodicAt is when a periodic instruction runs next; the zero time is at once.
func periodicAt(i plan.PeriodicInstruction, last plan.PeriodicOutput, now time.Time) time.Time {
	noted, wait := last.LastSuccessfulRunTime, time.Duration(cmp.Or(i.PeriodSeconds, plan.DefaultPeriodSeconds))*time.Second
	if last.Failures > 0 {
		noted, wait = last.LastFailedRunTime, time.Duration(min(last.Failures, maxPeriodicWaits))*periodicWait
	}
	ran, err := time.Parse(time.UnixDate, noted)
	if at := ran.Add(wait); err == nil && at.After(now) && at.Sub(now) <= wait { // a clock that was ahead delays nothing
		return at
	}
	return time.Time{}
}

// nextPeriodic is when the next of a plan's periodic instructions runs; the zero time is at once.
func nextPeriodic(p plan.Plan, known map[string]plan.PeriodicOutput, now time.Time) time.Time {
	var next time.Time
	for n, i := range p.PeriodicInstructions {
		if at := periodicAt(i, known[i.Name], now); n == 0 || at.Before(next) {
			next = at
		}
	}
	return next
}

// runPeriodic runs the periodic instructions that are due and returns their outputs in a new map.
func (r *Runner) runPeriodic(ctx context.Context, p plan.Plan, known map[string]plan.PeriodicOutput, now func() time.Time) map[string]plan.PeriodicOutput {
	all := map[string]plan.PeriodicOutput{}
	for _, i := range p.PeriodicInstructions {
		last := known[i.Name]
		if periodicAt(i, last, now()).IsZero() {
			last = r.periodic(ctx, i, last, now)
		}
		if ctx.Err() != nil {
			return maps.Clone(known)
		}
		all[i.Name] = last
	}
	return all
}

func (r *Runner) periodic(ctx context.Context, i plan.PeriodicInstruction, last plan.PeriodicOutput, now func() time.Time) plan.PeriodicOutput {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, periodicTimeout))
	defer cancel()
	result, err := r.run(limited, "periodic-"+plan.Checksum([]byte(i.Name))[:12], i.Command, last.Failures+1)
	out := plan.PeriodicOutput{Name: i.Name, Stdout: cut(result.stdout), Stderr: []byte{}, ExitCode: result.exit, LastSuccessfulRunTime: last.LastSuccessfulRunTime}
	if i.SaveStderrOutput {
		out.Stderr = cut(result.stderr)
	}
	at := now().UTC().Format(time.UnixDate)
	if err != nil {
		r.Log.Error(err, "Periodic instruction failed", "name", i.Name, "exitCode", result.exit)
		out.Failures, out.LastFailedRunTime = last.Failures+1, at
		return out
	}
	out.LastSuccessfulRunTime = at
	return out
}

func cut(content []byte) []byte { return content[max(0, len(content)-maxPeriodicBytes):] }
