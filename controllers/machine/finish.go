package machine

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// order of the steps whose conditions make a machine ready. The provider ID is not among them: the server is there, and
// stored, without it.
var order = []string{
	rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition,
	rkev1.CreateJobCondition, rkev1.StateStoredCondition,
}

// quiet are the reasons that give no event: those of ordinary waiting, and of steps that went well on the way.
var quiet = []string{
	rkev1.WaitingForOwnerReason, rkev1.WaitingForClusterReason, rkev1.WaitingForInfrastructureReason,
	rkev1.WaitingForBootstrapReason, rkev1.DeletingReason, rkev1.ClusterReadyReason, rkev1.DriverReadyReason, rkev1.BootstrapReadyReason,
	rkev1.CredentialReadyReason, rkev1.CredentialNotNeededReason, rkev1.StateStoredReason, rkev1.DeliveredReason,
	rkev1.WaitingForQuotaReason, rkev1.WaitingForCapacityReason, rkev1.WaitingForRateLimitReason, rkev1.JobQueuedReason,
}

// finish sums up, writes the status once, tells what changed, and lets a machine go whose server is gone.
func (r *Reconciler) finish(ctx context.Context, s *scope, outcome error) error {
	r.leaveTurn(s, outcome)
	r.releaseJob(ctx, s, outcome)
	s.summarize()
	r.metrics.observe(s, r.kind.Driver)
	if s.released {
		if err := r.noteGone(ctx, s); err != nil {
			return err
		}
		r.emit(s)
		r.metrics.forget(s.request)
		return r.release(ctx, s)
	}
	if err := s.SetStatus(s.status); err != nil {
		return err
	}
	wrote, err := step.PatchStatus(ctx, r.Client, s.before, s.Unstructured)
	if wrote {
		r.emit(s)
	}
	return err
}

// summarize sets what follows from the conditions.
func (s *scope) summarize() {
	s.status.ObservedGeneration = s.GetGeneration()
	if s.deleting() {
		s.summarizeDelete()
		return
	}
	s.summarizeReady()
	ready := s.conditions.Get(rkev1.ReadyCondition)
	s.status.Ready = ready.Status == metav1.ConditionTrue
	if s.status.Ready {
		s.status.FailureReason, s.status.FailureMessage, s.status.NextAttemptTime = "", "", nil
	}
	s.status.Phase = s.phase()
	s.conditions.CountServer()
}

// summarizeReady also waits for the last of the steps, whose condition is not there before it ran.
func (s *scope) summarizeReady() {
	s.conditions.Summarize(rkev1.ReadyCondition, rkev1.ReadyReason, order...)
	if s.conditions.Get(rkev1.ReadyCondition).Status == metav1.ConditionTrue && s.conditions.Get(rkev1.StateStoredCondition) == nil {
		s.conditions.False(rkev1.ReadyCondition, s.waitingReason(), s.waitingMessage())
	}
	if lost := s.conditions.Get(rkev1.BootstrapDeliveredCondition); lost != nil && lost.Status == metav1.ConditionFalse {
		s.conditions.False(rkev1.ReadyCondition, lost.Reason, lost.Message)
	}
}

func (s *scope) waitingReason() string {
	if paused := s.conditions.Get(rkev1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		return paused.Reason
	}
	return rkev1.JobPendingReason
}

func (s *scope) waitingMessage() string {
	if paused := s.conditions.Get(rkev1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		return paused.Message
	}
	return "no server was made yet"
}

func (s *scope) summarizeDelete() {
	s.status.Phase, s.status.Ready = rkev1.PhaseDeleting, false
	reason, message := rkev1.DeletingReason, "the server is being removed"
	if remove := s.conditions.Get(rkev1.DeleteJobCondition); remove != nil && remove.Status != metav1.ConditionTrue {
		reason, message = remove.Reason, remove.Message
	}
	if paused := s.conditions.Get(rkev1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		reason, message = paused.Reason, paused.Message+"; the server is removed when it goes on"
	}
	s.conditions.False(rkev1.ReadyCondition, reason, message)
}

func (s *scope) phase() string {
	create := s.conditions.Get(rkev1.CreateJobCondition)
	switch {
	case s.status.Ready:
		return rkev1.PhaseRunning
	case create == nil:
		return rkev1.PhasePending
	case create.Status == metav1.ConditionFalse && s.status.LastAttempt != nil,
		meta.IsStatusConditionFalse(s.status.Conditions, rkev1.BootstrapDeliveredCondition):
		return rkev1.PhaseFailed
	case create.Status == metav1.ConditionFalse:
		return rkev1.PhasePending
	}
	return rkev1.PhaseCreating
}

func (r *Reconciler) emit(s *scope) {
	step.Emit(r.Recorder, s.Unstructured, step.Transitions{Before: s.was, After: s.status.Conditions, Quiet: quiet,
		Of: append([]string{rkev1.DeleteJobCondition, rkev1.BootstrapDeliveredCondition}, order...)})
}

// stepReason is the reason with which a step ended; empty if it did not end by waiting.
func stepReason(err error) string {
	if waiting, ok := errors.AsType[*step.Waiting](err); ok {
		return waiting.Reason
	}
	if stalled, ok := errors.AsType[*step.Stalled](err); ok {
		return stalled.Reason
	}
	return ""
}

// stepMessage is what a step that ended by waiting says; empty if it did not end so.
func stepMessage(err error) string {
	if waiting, ok := errors.AsType[*step.Waiting](err); ok {
		return waiting.Message
	}
	if stalled, ok := errors.AsType[*step.Stalled](err); ok {
		return stalled.Err.Error()
	}
	return ""
}

// withReason gives a waiting another reason, and more to say.
func withReason(err error, reason, more string) error {
	waiting, ok := errors.AsType[*step.Waiting](err)
	if !ok {
		return err
	}
	changed := *waiting
	changed.Reason, changed.Message = reason, waiting.Message+more
	return &changed
}
