package machine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// preconditions are what has to be there before a create Job is started, and not after: while it runs, and when it has made
// the server, all of it may go.
var preconditions = []struct{ condition, reason string }{
	{rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason},
	{rkev1.DriverReadyCondition, rkev1.DriverReadyReason},
	{rkev1.BootstrapReadyCondition, rkev1.BootstrapReadyReason},
	{rkev1.CredentialReadyCondition, rkev1.CredentialReadyReason},
}

// needsNothing looks at the Job that was claimed before anything else is looked at: it reports whether that runs, or has done what
// it was made for. A failure is recorded, so that it is known whatever the next attempt has to wait for. What cannot be
// read is left to the step of the Job, which has a condition to say so.
func (r *Reconciler) needsNothing(ctx context.Context, s *scope, operation state.Operation) bool {
	if !s.state.Claimed || s.state.Claim.Operation != operation {
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
	return err != nil || !verdict.Done || verdict.Outcome == state.Succeeded
}

// settle judges an attempt and, when it has ended, keeps how and deletes its request; once in each reconcile.
func (r *Reconciler) settle(ctx context.Context, s *scope, evidence jobrunner.Evidence) (jobrunner.Verdict, error) {
	if s.verdict != nil {
		return *s.verdict, nil
	}
	verdict := jobrunner.OutcomeOf(evidence)
	if verdict.Done {
		if err := r.keepVerdict(ctx, s, evidence, verdict); err != nil {
			return verdict, err
		}
		if err := r.dropRequest(ctx, s); err != nil {
			return verdict, err
		}
		s.record(verdict)
	}
	s.verdict = &verdict
	return verdict, nil
}

// keepVerdict notes how an attempt ended whose pod left no word: when its Job is gone there is nothing to judge it by, and an
// attempt that must not be made again would be.
func (r *Reconciler) keepVerdict(ctx context.Context, s *scope, evidence jobrunner.Evidence, verdict jobrunner.Verdict) error {
	if evidence.Told() {
		return nil
	}
	noted := s.state.secret.DeepCopy()
	if err := evidence.Keep(verdict, noted); err != nil {
		return err
	}
	// The lock: a word that the pod left meanwhile counts before this.
	if err := r.Client.Patch(ctx, noted, client.MergeFromWithOptions(s.state.secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("noting in the state Secret how attempt %d ended: %w", evidence.Attempt, err)
	}
	s.state.secret, s.state.State = noted, state.Read(noted)
	return nil
}

// metPreconditions says of what was waited for before that it was met: the Job was started, so it was, and nobody looks at
// it again. Who started the Job may have had no time to say so. Of an attempt that could not be looked at nothing is said.
func (s *scope) metPreconditions() {
	if s.evidence == nil {
		return
	}
	for _, p := range preconditions {
		if !meta.IsStatusConditionTrue(s.status.Conditions, p.condition) {
			s.conditions.True(p.condition, p.reason, "")
		}
	}
}
