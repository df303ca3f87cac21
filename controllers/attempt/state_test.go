package attempt_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func pod(number string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{rkev1.AttemptLabel: number}}, Status: corev1.PodStatus{Phase: phase}}
}

// TestJudge: a Job is made again only when it surely did nothing.
func TestJudge(t *testing.T) {
	journal := func(text string) map[string][]byte { return map[string][]byte{state.JournalKey: []byte(text)} }
	result := func(text string) map[string][]byte { return map[string][]byte{state.ResultKey: []byte(text)} }
	for name, tt := range map[string]struct {
		evidence jobrunner.Evidence
		want     attempt.State
	}{
		"nothing":                      {jobrunner.Evidence{}, attempt.Claimed},
		"a Job":                        {jobrunner.Evidence{Job: &batchv1.Job{}}, attempt.Running},
		"a pod without its Job":        {jobrunner.Evidence{Pods: []corev1.Pod{pod("2", corev1.PodRunning)}}, attempt.Running},
		"its own pod":                  {jobrunner.Evidence{Pods: []corev1.Pod{pod("2", corev1.PodFailed)}}, attempt.Failed},
		"the pod of the one before":    {jobrunner.Evidence{Pods: []corev1.Pod{pod("1", corev1.PodFailed)}}, attempt.Claimed},
		"that pod, which runs":         {jobrunner.Evidence{Pods: []corev1.Pod{pod("1", corev1.PodRunning)}}, attempt.Running},
		"its word that it went well":   {jobrunner.Evidence{Job: &batchv1.Job{}, State: state.Of(result(`{"operation":"create","attempt":2,"outcome":"Succeeded"}`))}, attempt.Succeeded},
		"its word that it was stopped": {jobrunner.Evidence{State: state.Of(result(`{"operation":"create","attempt":2,"outcome":"Cancelled"}`))}, attempt.Failed},
		"its word, while the Job runs": {jobrunner.Evidence{Job: &batchv1.Job{}, State: state.Of(result(`{"operation":"create","attempt":2,"outcome":"Failed"}`))}, attempt.Running},
		"its own word":                 {jobrunner.Evidence{State: state.Of(result(`{"operation":"create","attempt":2,"outcome":"Failed"}`))}, attempt.Failed},
		"what was kept of it":          {jobrunner.Evidence{State: state.Of(map[string][]byte{state.VerdictKey: []byte(`{"operation":"create","attempt":2,"outcome":"Failed"}`)})}, attempt.Failed},
		"what was kept of another":     {jobrunner.Evidence{State: state.Of(map[string][]byte{state.VerdictKey: []byte(`{"operation":"create","attempt":1,"outcome":"Failed"}`)})}, attempt.Claimed},
		"the word of the one before":   {jobrunner.Evidence{State: state.Of(result(`{"operation":"create","attempt":1,"outcome":"Failed"}`))}, attempt.Claimed},
		"its own note":                 {jobrunner.Evidence{State: state.Of(journal(`{"operation":"create","attempt":2,"phase":"Intent"}`))}, attempt.Failed},
		"the note of the one before":   {jobrunner.Evidence{State: state.Of(journal(`{"operation":"create","attempt":1,"phase":"Intent"}`))}, attempt.Claimed},
		"the note of a remove":         {jobrunner.Evidence{State: state.Of(journal(`{"operation":"remove","attempt":2,"phase":"Removing"}`))}, attempt.Claimed},
		"a note that cannot be read":   {jobrunner.Evidence{State: state.Of(journal(`{`))}, attempt.Failed},
		"a note of an unknown phase":   {jobrunner.Evidence{State: state.Of(journal(`{"operation":"create","attempt":1,"phase":"Dreaming"}`))}, attempt.Failed},
		"a result that cannot be read": {jobrunner.Evidence{State: state.Of(result(`{`))}, attempt.Claimed},
	} {
		t.Run(name, func(t *testing.T) {
			tt.evidence.Operation, tt.evidence.Attempt = state.Create, 2
			require.Equal(t, tt.want, attempt.Judge(tt.evidence).State)
		})
	}
}
