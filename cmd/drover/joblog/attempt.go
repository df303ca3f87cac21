package joblog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// ErrNothing means that no attempt was made yet.
var ErrNothing = errors.New("no attempt was made yet, so no log exists")

// Attempt is one run of an operation and the remains of its log.
type Attempt struct {
	Operation string
	Number    int32
	Started   time.Time
	// Outcome is empty while it runs, or when it is not known.
	Outcome string
	// Job is nil when it is gone.
	Job *batchv1.Job
	// Text is the saved log, Origin names its source; both are empty if no log was saved.
	Text, Origin string
}

// String names the attempt for the user.
func (a *Attempt) String() string {
	return fmt.Sprintf("attempt %d to %s", a.Number, a.Operation)
}

// Running reports whether the attempt's Job is at work.
func (a *Attempt) Running() bool {
	return a.Job != nil && ending(a.Job) == ""
}

// Want is which attempt a user asks for; the zero value is the newest.
type Want struct {
	// Number of the attempt, or 0.
	Number int32
	// Operation is create or remove; empty means the operation of the newest attempt.
	Operation string
	// Previous asks for the attempt before the newest.
	Previous bool
}

// Attempts lists the known attempts of a machine, newest first.
func Attempts(s *facts.Snapshot) []*Attempt {
	var list attempts
	for i := range s.Jobs {
		job := &s.Jobs[i]
		number, err := strconv.ParseInt(job.Labels[rkev1.AttemptLabel], 10, 32)
		if err != nil {
			number = 0
		}
		a := list.of(job.Labels[rkev1.OperationLabel], int32(number))
		a.Job = job
		a.Started = job.CreationTimestamp.Time
	}
	if s.State != nil {
		list.addState(s.State)
	}
	if s.Machine != nil && s.Machine.Status.LastAttempt != nil {
		last := s.Machine.Status.LastAttempt
		a := list.of(last.Operation, last.Number)
		a.Outcome = last.Outcome
		a.started(ptr.Deref(last.StartTime, metav1.Time{}).Time)
		if a.Text == "" && last.LogTail != "" {
			a.Text, a.Origin = last.LogTail, "the end of it, kept in the machine's status"
		}
	}
	slices.SortStableFunc(list, func(a, b *Attempt) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Operation, a.Operation), cmp.Compare(b.Number, a.Number))
	})
	return list
}

// Pick chooses the attempt a user wants.
func Pick(all []*Attempt, want Want) (*Attempt, error) {
	if len(all) == 0 {
		return nil, ErrNothing
	}
	if want.Previous {
		if len(all) < 2 {
			return nil, fmt.Errorf("nothing is known of an attempt before %s", all[0])
		}
		return all[1], nil
	}
	operation := cmp.Or(want.Operation, all[0].Operation)
	wanted := func(a *Attempt) bool {
		return a.Operation == operation && (want.Number == 0 || a.Number == want.Number)
	}
	if at := slices.IndexFunc(all, wanted); at >= 0 {
		return all[at], nil
	}
	var known []string
	for _, a := range all {
		known = append(known, a.String())
	}
	return nil, fmt.Errorf("the log asked for is not kept any more; known are: %s", strings.Join(known, ", "))
}

type attempts []*Attempt

// of finds or adds an attempt.
func (list *attempts) of(operation string, number int32) *Attempt {
	for _, a := range *list {
		if a.Operation == operation && a.Number == number {
			return a
		}
	}
	a := &Attempt{Operation: operation, Number: number}
	*list = append(*list, a)
	return a
}

// addState takes the log of the state Secret; it belongs to the last result, or to a first attempt
// that has none yet.
func (list *attempts) addState(state *facts.State) {
	if state.Result == nil && (state.Journal == nil || state.Log == "") {
		return
	}
	var a *Attempt
	if state.Result != nil {
		a = list.of(string(state.Result.Operation), state.Result.Attempt)
		a.Outcome = string(state.Result.Outcome)
		a.started(state.Result.StartTime)
	} else {
		a = list.of(string(state.Journal.Operation), state.Journal.Attempt)
		a.started(state.Journal.Time)
	}
	if state.Log != "" {
		a.Text, a.Origin = state.Log, "kept in Secret "+state.Name
	}
}

// started sets the start unless the Job has set it.
func (a *Attempt) started(when time.Time) {
	if a.Started.IsZero() {
		a.Started = when
	}
}
