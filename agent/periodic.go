package agent

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/drover-project/drover/api/plan"
)

const (
	// periodicTimeout ends a periodic instruction that hangs.
	periodicTimeout = 10 * time.Minute
	// A periodic instruction that failed waits for so long for each failure in a row, up to maxPeriodicWaits of them (§7.3).
	periodicWait     = 30 * time.Second
	maxPeriodicWaits = 6
	// maxPeriodicBytes of each output are kept, its end.
	maxPeriodicBytes = 32 << 10
)

// periodicDue is when a periodic instruction runs next; the zero time is at once.
func periodicDue(i plan.PeriodicInstruction, last plan.PeriodicOutput) time.Time {
	if last.Failures > 0 {
		if failed, err := time.Parse(time.UnixDate, last.LastFailedRunTime); err == nil {
			return failed.Add(time.Duration(min(last.Failures, maxPeriodicWaits)) * periodicWait)
		}
		return time.Time{}
	}
	ran, err := time.Parse(time.UnixDate, last.LastSuccessfulRunTime)
	if err != nil {
		return time.Time{}
	}
	return ran.Add(time.Duration(cmp.Or(i.PeriodSeconds, plan.DefaultPeriodSeconds)) * time.Second)
}

// runPeriodic runs what is due and returns what is known then, in a map of its own, and when the next is due.
func (r *Runner) runPeriodic(ctx context.Context, p plan.Plan, known map[string]plan.PeriodicOutput, now func() time.Time) (map[string]plan.PeriodicOutput, time.Time) {
	all := map[string]plan.PeriodicOutput{}
	var next time.Time
	for _, i := range p.PeriodicInstructions {
		last := known[i.Name]
		if at := periodicDue(i, last); !now().Before(at) || at.After(now().Add(maxAhead)) {
			last = r.periodic(ctx, i, last, now)
		}
		if ctx.Err() != nil {
			return maps.Clone(known), time.Time{}
		}
		all[i.Name] = last
		if at := periodicDue(i, last); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return all, next
}

// maxAhead is how far ahead a run can be: one that is later was noted by a clock that was wrong.
const maxAhead = 8 * 24 * time.Hour

func (r *Runner) periodic(ctx context.Context, i plan.PeriodicInstruction, last plan.PeriodicOutput, now func() time.Time) plan.PeriodicOutput {
	limited, cancel := context.WithTimeout(ctx, periodicTimeout)
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
