package joblog_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/joblog"
	"github.com/drover-project/drover/state"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func job(operation string, attempt, minute int, finished bool) batchv1.Job {
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Labels:            map[string]string{rkev1.OperationLabel: operation, rkev1.AttemptLabel: strconv.Itoa(attempt)},
		CreationTimestamp: metav1.NewTime(start.Add(time.Duration(minute) * time.Minute)),
	}}
	if finished {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	}
	return j
}

func stateOf(operation state.Operation, attempt int32, minute int, log string) *facts.State {
	return &facts.State{Name: "s", Log: log, Result: &state.Result{
		Operation: operation, Attempt: attempt, Outcome: state.Failed, StartTime: start.Add(time.Duration(minute) * time.Minute)}}
}

func last(operation string, number int32, minute int) *facts.Machine {
	when := metav1.NewTime(start.Add(time.Duration(minute) * time.Minute))
	return &facts.Machine{Status: rkev1.RKEMachineStatus{LastAttempt: &rkev1.AttemptStatus{
		Operation: operation, Number: number, StartTime: &when, Outcome: "Failed", LogTail: "tail"}}}
}

func TestPick(t *testing.T) {
	all := &facts.Snapshot{
		Jobs:    []batchv1.Job{job("remove", 1, 9, false), job("create", 2, 5, true)},
		State:   stateOf(state.Create, 2, 5, "full"),
		Machine: last("create", 1, 0),
	}
	for name, c := range map[string]struct {
		snapshot *facts.Snapshot
		want     joblog.Want
		picked   string
		text     string
		running  bool
		err      string
	}{
		"the newest, running":     {snapshot: all, picked: "attempt 1 to remove", running: true},
		"the previous":            {snapshot: all, want: joblog.Want{Previous: true}, picked: "attempt 2 to create", text: "full"},
		"by number and operation": {snapshot: all, want: joblog.Want{Operation: "remove", Number: 1}, picked: "attempt 1 to remove", running: true},
		"no such operation":       {snapshot: &facts.Snapshot{Machine: last("create", 1, 0)}, want: joblog.Want{Operation: "remove"}, err: "the log asked for is not kept any more; known are: attempt 1 to create"},
		"by operation":            {snapshot: all, want: joblog.Want{Operation: "create"}, picked: "attempt 2 to create", text: "full"},
		"by number":               {snapshot: all, want: joblog.Want{Operation: "create", Number: 1}, picked: "attempt 1 to create", text: "tail"},
		"a number not kept":       {snapshot: all, want: joblog.Want{Number: 7}, err: "the log asked for is not kept any more; known are: attempt 1 to remove, attempt 2 to create, attempt 1 to create"},
		"nothing":                 {snapshot: &facts.Snapshot{Machine: &facts.Machine{}, State: &facts.State{}}, err: "no attempt was made yet, so no log exists"},
		"no previous":             {snapshot: &facts.Snapshot{Machine: last("create", 1, 0)}, want: joblog.Want{Previous: true}, err: "nothing is known of an attempt before attempt 1 to create"},
		"the state before status": {snapshot: &facts.Snapshot{State: stateOf(state.Create, 3, 2, "full"), Machine: last("create", 3, 2)}, picked: "attempt 3 to create", text: "full"},
		"status without Secrets":  {snapshot: &facts.Snapshot{Machine: last("create", 3, 2)}, picked: "attempt 3 to create", text: "tail"},
	} {
		t.Run(name, func(t *testing.T) {
			attempt, err := joblog.Pick(joblog.Attempts(c.snapshot), c.want)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				require.Equal(t, name == "nothing", errors.Is(err, joblog.ErrNothing))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.picked, attempt.String())
			require.Equal(t, c.text, attempt.Text)
			require.Equal(t, c.running, attempt.Running())
		})
	}
}
