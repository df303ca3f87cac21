package machine

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/limit"
	"github.com/drover-project/drover/state"
)

// wanted is an attempt that a machine would make.
type wanted struct {
	claim state.Claim
	ask   breaker.Ask
	// failed describes the failure of the previous attempt; empty without one. at is the end of the
	// machine's own back-off.
	failed string
	at     time.Time
}

// startInTurn starts an attempt when it is due and, for a create, when it is this machine's turn.
func (r *Reconciler) startInTurn(ctx context.Context, s *scope, w wanted) error {
	if s.now.Before(w.at) {
		return s.waitUntil(w.at, w.failed+nextAttempt)
	}
	if w.claim.Operation != state.Create {
		return r.start(ctx, s, w.claim)
	}
	w.ask.Group, w.ask.Hash, w.ask.Now = s.group(), r.requestHash(s, state.Create), s.now
	// Only a hint after a manager's start: refused machines report more, but perhaps later than
	// this one.
	w.ask.Held = held[ptr.Deref(meta.FindStatusCondition(s.was, rkev1.CreateJobCondition), metav1.Condition{}).Reason]
	w.ask.Called = s.status.NextAttemptTime != nil
	turn := r.breaker.Ask(s.request, w.ask)
	if !turn.Go {
		return r.waitTurn(s, turn, w.failed)
	}
	err := r.start(ctx, s, w.claim)
	if reason := stepReason(err); reason != "" && reason != rkev1.JobRunningReason && reason != rkev1.JobQueuedReason {
		r.breaker.Leave(s.request, s.now) // no machine needs to wait for this one, because it cannot send a request to the cloud
	}
	return err
}

// group returns the group of the machines that request the same server from the same account. Of
// the fields common to all drivers, only the credential matters to the cloud.
func (s *scope) group() breaker.Group {
	spec := maps.Clone(s.Spec())
	delete(spec, "common")
	delete(spec, "providerID")
	group := breaker.Group{Namespace: s.GetNamespace(), Kind: s.GetKind(), Order: hashOf(spec)}
	if name := s.CredentialName(); name != "" {
		group.Credential = credential.Parse(s.GetNamespace(), name).String()
	}
	return group
}

// leaveTurn removes a machine from the breaker if it waits for something else now. After an error
// that is retried, the machine keeps its place.
func (r *Reconciler) leaveTurn(s *scope, outcome error) {
	if !s.asked && (outcome == nil || isWaiting(outcome)) {
		r.breaker.Leave(s.request, s.now)
	}
}

// reportFailed reports a failed create to the breaker, because other machines may request the same.
// A machine that stopped does not wait with them.
func (r *Reconciler) reportFailed(s *scope, class string, at time.Time, stopped bool) {
	if !jobrunner.IsShared(class) {
		r.breaker.Ended(s.request, at, s.now)
		return
	}
	claim := s.state.Claim
	r.breaker.Refused(s.request, breaker.Refusal{Group: s.group(), Class: class, Attempt: claim.Attempt, Try: claim.Try,
		End: s.status.LastAttempt.EndTime.Time, Now: s.now, Fresh: s.fresh})
	if stopped {
		r.breaker.Leave(s.request, s.now)
	}
}

// reportMade reports to the breaker that the cloud made the server, even while its Job continues.
func (r *Reconciler) reportMade(s *scope) {
	claim := s.state.Claim
	journal := s.state.Journal.Value
	if !s.state.Journal.IsRead() || claim.Operation != state.Create || journal.Operation != state.Create || journal.Attempt != claim.Attempt {
		return
	}
	if journal.Phase == state.PhaseCreated || journal.Phase == state.PhaseBootstrapped {
		r.breaker.Made(s.request, s.now)
	}
}

// refusal names the refused machine that holds this machine back. It keeps the name of the
// last message as long as possible, because each change of the text causes a write.
func (r *Reconciler) refusal(s *scope, class string) string {
	const asks = " for the same with the same credential"
	var before *Request
	if s.status.HeldBy != "" {
		before = &Request{Kind: s.request.Kind, NamespacedName: types.NamespacedName{Namespace: s.GetNamespace(), Name: s.status.HeldBy}}
	}
	cause, here := r.breaker.Cause(s.group(), before, s.now)
	if s.status.HeldBy = ""; cause == nil || *cause == s.request {
		return "the cloud rejected another machine that retries" + asks + " (" + class + ")"
	}
	s.status.HeldBy = cause.Name
	if here {
		return "the cloud rejected machine " + cause.Name + ", which retries" + asks + " (" + class + ")"
	}
	return "the cloud rejected machine " + cause.Name + ", which retried" + asks + " and has stopped (" + class + ")"
}

// waitTurn reports why a machine waits while another machine has the turn. The text does not change
// when the turn passes between other machines, because each change of the text causes a write.
func (r *Reconciler) waitTurn(s *scope, turn breaker.Turn, failed string) error {
	reason := rkev1.WaitingForRetryReason
	asks := nextAttempt
	if failed == "" {
		reason = rkev1.WaitingForQuotaReason
		for of, class := range held {
			if class == turn.Class {
				reason = of
			}
		}
		failed = r.refusal(s, turn.Class)
		asks = ". This machine retries next, at"
	}
	if !turn.At.IsZero() {
		return withReason(s.waitUntil(turn.At, failed+asks), reason, "")
	}
	s.status.NextAttemptTime = nil
	after := heldCheck
	if !turn.CheckAt.IsZero() {
		after = turn.CheckAt.Sub(s.now)
	}
	return step.Wait(reason, fmt.Sprintf("%s. One machine at a time retries. This machine follows after that machine has a server, or retries next when the annotation %s gets a new value",
		failed, rkev1.RetryAnnotation), after)
}

const nextAttempt = ". The next attempt starts at"

// waitUntil waits for a time; text ends with the announcement of that time.
func (s *scope) waitUntil(at time.Time, text string) error {
	s.status.NextAttemptTime = &metav1.Time{Time: at}
	return step.Wait(rkev1.WaitingForRetryReason, fmt.Sprintf("%s %s, or when the annotation %s gets a new value",
		text, at.UTC().Format(time.RFC3339), rkev1.RetryAnnotation), at.Sub(s.now))
}

// held maps the reasons of held machines to the classes of failure for which they are held.
var held = map[string]string{rkev1.WaitingForQuotaReason: rkev1.ClassQuota, rkev1.WaitingForCapacityReason: rkev1.ClassCapacity,
	rkev1.WaitingForRateLimitReason: rkev1.ClassThrottled}

// jobs is the limit of the machines' Jobs. It learns once about the Jobs of an earlier manager.
type jobs struct {
	*limit.Queue[Request]

	mu      sync.Mutex
	learned bool
}

// learn counts the running Jobs before the first new one may start.
func (j *jobs) learn(ctx context.Context, r *Reconciler) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.learned || j.Limit == 0 {
		return nil
	}
	list := &batchv1.JobList{}
	if err := r.Cache.List(ctx, list); err != nil {
		return fmt.Errorf("listing the Jobs that run: %w", err)
	}
	for i := range list.Items {
		if jobrunner.JobEnded(&list.Items[i]) {
			continue
		}
		for _, request := range ofMachine(&list.Items[i]) {
			j.Hold(request, request.Namespace)
		}
	}
	j.learned = true
	return nil
}

// awaitJobLimit waits until the limit of concurrent Jobs allows this machine's Job.
func (r *Reconciler) awaitJobLimit(ctx context.Context, s *scope, operation state.Operation) error {
	if err := r.jobs.learn(ctx, r); err != nil {
		return err
	}
	ok, ahead := r.jobs.Acquire(s.request, s.GetNamespace(), operation == state.Remove)
	if ok {
		return nil
	}
	s.jobWanted = true
	place := "this Job is the next"
	switch {
	case ahead == 1:
		place = "1 machine is ahead of this machine"
	case ahead > 1:
		place = fmt.Sprintf("%d machines are ahead of this machine", ahead)
	}
	return step.Wait(rkev1.JobQueuedReason, fmt.Sprintf("the limit of concurrent Jobs is reached (--max-concurrent-jobs=%d), and %s", r.jobs.Limit, place), heldCheck)
}

// releaseJob lets another machine start its Job if this one has no Job and needs none. If the
// attempt cannot be read, the machine keeps its place.
func (r *Reconciler) releaseJob(ctx context.Context, s *scope, outcome error) {
	if s.jobWanted || outcome != nil && !isWaiting(outcome) || !r.jobs.Knows(s.request) {
		return
	}
	if s.state.Claimed && !s.released {
		seen, err := r.readAttempt(ctx, s)
		if job := seen.Evidence.Job; err != nil || job != nil && !jobrunner.JobEnded(job) || seen.Evidence.Outliving() != nil {
			return
		}
	}
	r.jobs.Release(s.request)
}
