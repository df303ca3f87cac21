package joblog_test

import (
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

func at(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }

// attemptsCase is what is known of a machine, and its attempts, newest first.
type attemptsCase struct {
	snapshot *facts.Snapshot
	want     []joblog.Attempt
}

func attemptsCases() map[string]attemptsCase {
	running, finished := job("create", 2, 5, false), job("create", 1, 1, true)
	const kept, tail = "kept in Secret s", "the end of it, kept in the machine's status"
	return map[string]attemptsCase{
		"nothing":              {&facts.Snapshot{}, nil},
		"nothing in the state": {&facts.Snapshot{State: &facts.State{Name: "s", Log: "log"}, Machine: &facts.Machine{}}, nil},
		"Jobs": {&facts.Snapshot{Jobs: []batchv1.Job{finished, running}}, []joblog.Attempt{
			{Operation: "create", Number: 2, Started: at(5), Job: &running},
			{Operation: "create", Number: 1, Started: at(1), Job: &finished},
		}},
		"one attempt, told three times": {&facts.Snapshot{Jobs: []batchv1.Job{finished}, State: stateOf(state.Create, 1, 2, "full"), Machine: last("create", 1, 3)}, []joblog.Attempt{
			{Operation: "create", Number: 1, Started: at(1), Outcome: "Failed", Job: &finished, Text: "full", Origin: kept},
		}},
		"the first one that runs": {&facts.Snapshot{State: &facts.State{Name: "s", Log: "so far",
			Journal: &state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent, Time: at(4)}}}, []joblog.Attempt{
			{Operation: "create", Number: 1, Started: at(4), Text: "so far", Origin: kept},
		}},
		"a journal without a log": {&facts.Snapshot{State: &facts.State{Name: "s",
			Journal: &state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent}}}, nil},
		"a result without a log": {&facts.Snapshot{State: stateOf(state.Remove, 1, 2, "")}, []joblog.Attempt{
			{Operation: "remove", Number: 1, Started: at(2), Outcome: "Failed"},
		}},
		"removed after it was created": {&facts.Snapshot{State: stateOf(state.Remove, 1, 9, "removing"), Machine: last("create", 1, 3)}, []joblog.Attempt{
			{Operation: "remove", Number: 1, Started: at(9), Outcome: "Failed", Text: "removing", Origin: kept},
			{Operation: "create", Number: 1, Started: at(3), Outcome: "Failed", Text: "tail", Origin: tail},
		}},
		"started at one time": {&facts.Snapshot{Jobs: []batchv1.Job{job("create", 1, 5, true), job("remove", 1, 5, false), job("create", 2, 5, true)}}, []joblog.Attempt{
			{Operation: "remove", Number: 1, Started: at(5)}, {Operation: "create", Number: 2, Started: at(5)}, {Operation: "create", Number: 1, Started: at(5)},
		}},
		"a start that is not known": {&facts.Snapshot{Jobs: []batchv1.Job{finished}, Machine: &facts.Machine{Status: rkev1.RKEMachineStatus{
			LastAttempt: &rkev1.AttemptStatus{Operation: "create", Number: 7, Outcome: "Cancelled"}}}}, []joblog.Attempt{
			{Operation: "create", Number: 1, Started: at(1), Job: &finished}, {Operation: "create", Number: 7, Outcome: "Cancelled"},
		}},
		"labels somebody changed": {&facts.Snapshot{Jobs: []batchv1.Job{odd("create", "99999999999")}}, []joblog.Attempt{{Operation: "create", Started: at(0)}}},
	}
}

// odd is a Job whose attempt is no number of ours.
func odd(operation, attempt string) batchv1.Job {
	j := job(operation, 0, 0, false)
	j.Labels[rkev1.AttemptLabel] = attempt
	return j
}

func TestAttempts(t *testing.T) {
	for name, c := range attemptsCases() {
		t.Run(name, func(t *testing.T) {
			var got []joblog.Attempt
			for i, a := range joblog.Attempts(c.snapshot) {
				attempt := *a
				if i < len(c.want) && c.want[i].Job == nil {
					// Which Job it is does not matter to this case.
					attempt.Job = nil
				}
				got = append(got, attempt)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestRunning(t *testing.T) {
	of := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) bool {
		j := batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: status}}}}
		return (&joblog.Attempt{Job: &j}).Running()
	}
	require.False(t, (&joblog.Attempt{}).Running(), "its Job is gone")
	require.True(t, (&joblog.Attempt{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}}).Running())
	require.False(t, of(batchv1.JobComplete, corev1.ConditionTrue))
	require.False(t, of(batchv1.JobFailed, corev1.ConditionTrue))
	require.True(t, of(batchv1.JobFailed, corev1.ConditionFalse))
	require.True(t, of(batchv1.JobSuspended, corev1.ConditionTrue))
	require.True(t, of(batchv1.JobFailureTarget, corev1.ConditionTrue), "its pods are still ending")
}
