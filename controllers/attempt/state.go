package attempt

import (
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// State is how the attempt stands that a record claims.
type State string

// States of an attempt.
const (
	// Unclaimed: the record claims none.
	Unclaimed State = "Unclaimed"
	// Claimed: its Job was not made yet, or was taken away before its pod did anything.
	Claimed State = "Claimed"
	// Running: its Job or its pod is there and has not ended.
	Running State = "Running"
	// Succeeded: it did what was asked for.
	Succeeded State = "Succeeded"
	// Failed: it has ended without that, or was cancelled.
	Failed State = "Failed"
)

// UnderWay reports whether nothing is needed for another Job: one runs, or has done what was asked for.
func (s State) UnderWay() bool { return s == Running || s == Succeeded }

// Ended reports whether the attempt is over.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Attempt is a claimed attempt as it was seen.
type Attempt struct {
	State    State
	Evidence jobrunner.Evidence
	Verdict  jobrunner.Verdict
}

// Judge says how a claimed attempt stands.
func Judge(e jobrunner.Evidence) Attempt {
	a := Attempt{State: Failed, Evidence: e, Verdict: jobrunner.OutcomeOf(e)}
	switch {
	case neverStarted(e):
		a.State = Claimed
	case !a.Verdict.Done:
		a.State = Running
	case a.Verdict.Outcome == state.Succeeded:
		a.State = Succeeded
	}
	return a
}

// neverStarted reports whether the claimed attempt's Job was not made yet, or was taken away before its pod did anything. It
// waits for a pod of an earlier one that has not ended.
func neverStarted(e jobrunner.Evidence) bool {
	if e.Job != nil || len(e.Own()) > 0 || e.Outliving() != nil || e.Told() {
		return false
	}
	journal := e.State.Journal.Value
	if !e.State.Journal.IsRead() {
		return e.State.Journal.IsAbsent()
	}
	return journal.Operation != e.Operation || journal.Attempt != e.Attempt
}
