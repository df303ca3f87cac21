package machine

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

// preconditions are what has to be there before a create Job is started, and not after: while it runs, and when it has made
// the server, all of it may go.
var preconditions = []string{
	rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition,
}

// needsNothing looks at the create Job that was claimed before anything else is looked at: it tells whether that runs, or
// has made the server. A failure is recorded, so that it is known whatever the next attempt has to wait for. What cannot be
// read is left to the step of the Job, which has a condition to say so.
func (r *Reconciler) needsNothing(ctx context.Context, s *scope) bool {
	if !s.state.claimed || s.state.claim.Operation != jobrunner.Create {
		return false
	}
	evidence, err := r.gather(ctx, s)
	if err != nil {
		return true
	}
	if neverStarted(evidence) {
		return false
	}
	verdict, err := r.settle(ctx, s, evidence)
	return err != nil || !verdict.Done || verdict.Outcome == jobrunner.Succeeded
}

// settle judges an attempt and, when it has ended, deletes its request and keeps how it ended; once in each reconcile.
func (r *Reconciler) settle(ctx context.Context, s *scope, evidence jobrunner.Evidence) (jobrunner.Verdict, error) {
	if s.verdict != nil {
		return *s.verdict, nil
	}
	verdict := jobrunner.OutcomeOf(evidence)
	if verdict.Done {
		if err := r.dropRequest(ctx, s); err != nil {
			return verdict, err
		}
		s.record(verdict)
	}
	s.verdict = &verdict
	return verdict, nil
}

// dropWaiting takes away what was waited for when it does not matter any more: nobody would look at it again, and the
// machine would never become ready.
func (s *scope) dropWaiting() {
	s.status.Conditions = slices.DeleteFunc(s.status.Conditions, func(c metav1.Condition) bool {
		return c.Status != metav1.ConditionTrue && slices.Contains(preconditions, c.Type)
	})
}
