package agent

import (
	"strconv"
	"time"

	"github.com/drover-project/drover/api/plan"
)

// view is a plan Secret, read once.
type view struct {
	data     map[string][]byte
	checksum string
	state    plan.State
	revision int
	// attempts is how many the planner allows.
	attempts int
}

func readView(data map[string][]byte) view {
	v := view{data: data, state: plan.State(data[plan.KeyState]), revision: count(data[plan.KeyRevision]), attempts: plan.Attempts(data)}
	if len(data[plan.KeyPlan]) > 0 {
		v.checksum = plan.Checksum(data[plan.KeyPlan])
	}
	return v
}

// isOpen reports whether the plan's state leaves anything to do.
func (v view) isOpen() bool {
	switch v.state {
	case plan.StateNone, plan.StatePending, plan.StateInProgress:
		return v.checksum != ""
	case plan.StateSucceeded, plan.StateFailed, plan.StateCanceled:
	}
	return false
}

// claims reports whether the Secret is to say that the order in the journal is taken up.
func (v view) claims(j Journal) bool {
	return v.checksum != "" && j.Checksum == v.checksum && (v.state == plan.StatePending || v.state == plan.StateSucceeded && j.Phase != Succeeded)
}

// exhausted reports whether the order has no attempt left.
func (v view) exhausted(j Journal) bool {
	return v.attempts != plan.Unlimited && j.Failures >= v.attempts
}

// take computes the journal from the Secret: the present journal if it is about the same order, or
// the journal of a new order.
//
// The journal of a new order has a higher revision than the Secret, until the agent has written
// that revision to the Secret. So a pending plan with a lower revision than the journal means that
// the claim was lost, or that the Secret comes from a backup. In both cases the steps in the
// journal are done. A pending plan with the same revision is a new order.
func take(v view, j Journal) Journal {
	if v.state == plan.StateSucceeded && v.checksum != "" {
		return redone(v, j)
	}
	if !v.isOpen() {
		return j
	}
	same := j.Checksum == v.checksum
	if v.state == plan.StatePending {
		if same && v.revision < j.Revision {
			return j
		}
		return j.ordered(v.checksum, max(v.revision, j.Revision)+1)
	}
	if v.state == plan.StateInProgress {
		if same && v.revision <= j.Revision {
			return j
		}
		return resumed(v, j.ordered(v.checksum, max(v.revision, j.Revision)))
	}
	// Under the old protocol a plan is another order only if its content differs. Without a journal
	// the Secret shows the last applied plan.
	if same || j.Checksum == "" && string(v.data[plan.KeyAppliedChecksum]) == v.checksum && len(v.data[plan.KeyFailedChecksum]) == 0 {
		return j
	}
	return resumed(v, j.ordered(v.checksum, j.Revision+1))
}

// redone is the journal when the Secret says that its plan is applied: a new order of it when
// another plan was begun on this host last, for then a backup brought back the Secret, or the host.
func redone(v view, j Journal) Journal {
	switch {
	case j.Checksum == "", j.Checksum == v.checksum && (j.Phase == Succeeded || j.Revision > v.revision):
		return j
	}
	return j.ordered(v.checksum, max(v.revision, j.Revision)+1)
}

// resumed continues the counters of an agent whose journal is lost.
func resumed(v view, j Journal) Journal {
	if string(v.data[plan.KeyFailedChecksum]) == v.checksum {
		j.Failures = count(v.data[plan.KeyFailureCount])
		j.Attempt = max(j.Attempt, j.Failures+1)
	}
	return j
}

// The wait after a failed attempt.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

// retryAt is when another attempt of the order starts.
func retryAt(j Journal) time.Time {
	wait := firstRetry
	for range min(j.Failures-1, 10) {
		wait = min(2*wait, lastRetry)
	}
	return j.Ended.Add(wait)
}

// isDue reports whether steps are to be done now, and else from when on; the zero time is never.
func isDue(v view, j Journal, now time.Time) (bool, time.Time) {
	if !v.isOpen() || j.Checksum != v.checksum {
		return false, time.Time{}
	}
	switch {
	case j.Phase == Applying:
		return true, time.Time{}
	case j.Phase == Failed && !v.exhausted(j):
		at := retryAt(j)
		return !now.Before(at) || at.Sub(now) > lastRetry, at // a clock that was ahead delays nothing
	}
	return false, time.Time{}
}

func count(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
