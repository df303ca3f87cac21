package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// attempt brings one operation forward: it starts its first Job, waits for a running one, and after
// a failure starts the next when it is due. It returns nil if the operation has succeeded. Package
// attempt defines the states; two Jobs of one machine never run together.
func (r *Reconciler) attempt(ctx context.Context, s *scope, operation state.Operation) error {
	if s.state.takenBy != "" {
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the name is taken: the Secret %s %s. Nothing was created for this machine",
			jobrunner.StateSecretName(s.GetName()), s.state.takenBy), 0)
	}
	if err := r.checkTaggedUID(ctx, s); err != nil {
		return err
	}
	s.asked = operation == state.Create
	seen, err := r.observe(ctx, s, operation)
	if err != nil {
		return err
	}
	facts := r.factsOf(s, seen)
	claim, do := s.state.Claim, facts.next()
	if seen.State == attempt.Running || seen.State.Ended() {
		s.status.JobName, s.status.Attempts = jobrunner.JobName(s.home.Name, operation, claim.Attempt), claim.Attempt
	}
	switch do {
	case claimFirst:
		return r.startInTurn(ctx, s, wanted{claim: state.Claim{Operation: operation, Attempt: s.firstNumber(operation), Try: 1}})
	case makeJob:
		return r.start(ctx, s, claim)
	case awaitJob:
		r.reportMade(s)
		return r.running(ctx, s, seen)
	case finish:
		r.breaker.Made(s.request, s.now)
		s.succeeded()
		return nil
	case claimChanged:
		return r.startInTurn(ctx, s, wanted{claim: claim.Again(1), ask: breaker.Ask{Changed: true}})
	case stallInDoubt, stallExhausted, claimAgain:
	}
	return r.afterFailure(ctx, s, facts, do)
}

// firstNumber is 1, unless the state knows of Jobs that were not claimed.
func (s *scope) firstNumber(operation state.Operation) int32 {
	result := s.state.Result.Value
	if !s.state.Result.IsRead() || result.Operation != operation || result.Attempt < 1 {
		return 1
	}
	return state.Claim{Attempt: result.Attempt}.Again(1).Attempt
}

// observe returns the state of an operation's attempt. It records the end of an attempt, once in
// each reconcile, so that the end is known even if the next attempt has to wait.
func (r *Reconciler) observe(ctx context.Context, s *scope, operation state.Operation) (attempt.Attempt, error) {
	if !s.state.Claimed || s.state.Claim.Operation != operation {
		return attempt.Attempt{State: attempt.Unclaimed}, nil
	}
	seen, err := r.readAttempt(ctx, s)
	if err != nil || s.recorded || !seen.State.Ended() {
		return seen, err
	}
	if err := r.keepVerdict(ctx, s, seen); err != nil {
		return seen, err
	}
	if err := r.cleanSecrets(ctx, s); err != nil {
		return seen, err
	}
	s.record(seen.Verdict)
	s.recorded = true
	return seen, nil
}

// cleanSecrets deletes the Secrets that the Job of the claimed attempt has read.
func (r *Reconciler) cleanSecrets(ctx context.Context, s *scope) error {
	reader := r.Cache
	if s.inFallback() {
		reader = r.Live // the cache of a manager of one namespace contains no Secrets of other namespaces
	}
	claim := s.state.Claim
	return r.runner.Clean(ctx, s.subject(), reader, r.runner.SecretsOf(s.home.Namespace, jobrunner.JobName(s.home.Name, claim.Operation, claim.Attempt))...)
}

// readAttempt returns the claimed attempt. It reads the attempt once in each reconcile.
func (r *Reconciler) readAttempt(ctx context.Context, s *scope) (attempt.Attempt, error) {
	if s.attempt != nil {
		return *s.attempt, nil
	}
	claim := s.state.Claim
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.JobName(s.home.Name, claim.Operation, claim.Attempt)}
	if s.inFallback() {
		r.watchIndex.note(s.request, watchKey{kind: "Job", name: key})
	}
	seen, err := r.runner.Observe(ctx, s.subject(), jobrunner.Evidence{Operation: claim.Operation, Attempt: claim.Attempt, State: s.state.State, Now: s.now}, key,
		func() client.MatchingLabels { return r.podLabels(s, claim.Operation) })
	if err == nil {
		s.attempt = &seen
	}
	return seen, err
}

// keepVerdict notes in the state how an attempt has ended.
func (r *Reconciler) keepVerdict(ctx context.Context, s *scope, ended attempt.Attempt) error {
	noted, err := r.runner.Record(ctx, ended, s.state.secret)
	if err == nil && noted != s.state.secret {
		s.state.secret, s.state.State = noted, state.Read(noted)
	}
	return err
}

// subject is the machine as package attempt knows it.
func (s *scope) subject() attempt.Subject { return attempt.Subject{Owns: s.owns, Succeeds: s.succeeds} }

// podLabels returns the labels of the pods of the machine's Jobs for one operation, and notes the
// watch key: from then on these pods wake the machine.
func (r *Reconciler) podLabels(s *scope, operation state.Operation) client.MatchingLabels {
	r.watchIndex.note(s.request, watchKey{kind: "Pod", uid: s.GetUID()})
	return client.MatchingLabels{rkev1.MachineUIDLabel: string(s.GetUID()), rkev1.OperationLabel: string(operation)}
}

// running reports the progress of the Job, or the reason why it waits. It restores the Job's
// ServiceAccount, Role and RoleBinding: during a foreground deletion of the machine the garbage
// collector deletes everything that the machine owns.
func (r *Reconciler) running(ctx context.Context, s *scope, seen attempt.Attempt) error {
	name, after := s.status.JobName, s.untilDue(seen.Evidence.Pods)
	task := jobrunner.Task{Owner: s.Reference(), Request: jobrunner.Request{Operation: s.state.Claim.Operation, Machine: s.ref(),
		Driver: state.DriverRef{Name: r.kind.Driver}, Namespace: s.home.Namespace, StateSecret: jobrunner.StateSecretName(s.home.Name)}}
	if s.inFallback() {
		task.Owner, task.Base = nil, s.home.Name
	}
	again, err := r.runner.Mend(ctx, seen, jobrunner.ServiceAccount(task), jobrunner.Role(task), jobrunner.RoleBinding(task))
	if err != nil {
		return err
	}
	if again > 0 {
		after = min(after, again)
	}
	if v := seen.Verdict; v.Reason != "" {
		return step.Progress(v.Reason, fmt.Sprintf("Job %s waits: %s", name, v.Message), after)
	}
	if p := s.state.Progress.Value; p.Throttled != "" && p.Operation == s.state.Claim.Operation && p.Attempt == seen.Evidence.Attempt {
		return step.Progress(rkev1.ThrottledReason, fmt.Sprintf("Job %s is running, attempt %d: the cloud has limited the request rate since %s, and the driver repeats its request until the "+
			"Job's deadline. The driver reports: %s", name, p.Attempt, p.ThrottledSince.UTC().Format(time.RFC3339), p.Throttled), after)
	}
	return underWay(name, seen.Evidence.Attempt, after)
}

// untilDue returns how long to wait before the next check of pods. No event arrives when a pod that
// was to end does not end.
func (s *scope) untilDue(pods []corev1.Pod) time.Duration {
	after := safetyNet
	for i := range pods {
		if due := jobrunner.DueAt(&pods[i]); due.After(s.now) {
			after = min(after, due.Sub(s.now)+time.Second)
		}
	}
	return after
}

// underWay uses the same text from the start of a Job to its end, because each change of the text
// causes a write.
func underWay(job string, attempt int32, after time.Duration) error {
	return step.Progress(rkev1.JobRunningReason, fmt.Sprintf("Job %s is running, attempt %d", job, attempt), after)
}

// factsOf collects the facts on which next decides.
func (r *Reconciler) factsOf(s *scope, seen attempt.Attempt) facts {
	f := facts{state: seen.State, verdict: seen.Verdict}
	if seen.State != attempt.Failed {
		return f
	}
	claim, v := s.state.Claim, seen.Verdict
	f.changed = r.requestHash(s, claim.Operation) != claim.Hash
	f.doubt = claim.Operation == state.Create && v.Reason == rkev1.ServerMayExistReason
	// If the driver cannot find servers, another attempt cannot find out whether a server exists,
	// and would overwrite the result of the last attempt. Only the user can look in the cloud, and
	// has not confirmed it yet.
	f.unlooked = v.Result != nil && v.Result.Retry != nil && s.looked() < claim.Attempt && clouds.Of(s.driver.ref.Name).Finder.Kind == clouds.NoFinder
	f.class, f.made = v.Class, claim.Made
	if v.Outcome == state.Cancelled {
		f.class = rkev1.ClassTransient // the pod was stopped, for example by a drain of its node
	} else if v.Made {
		f.made++
	}
	f.at, f.stopped = jobrunner.NextAttempt(jobrunner.Failure{Operation: claim.Operation, Class: f.class, Try: claim.Try, Made: f.made,
		End: s.status.LastAttempt.EndTime.Time, UID: string(s.GetUID())})
	return f
}

// afterFailure starts the next attempt, or reports its time, or why there will be none.
func (r *Reconciler) afterFailure(ctx context.Context, s *scope, f facts, do action) error {
	claim := s.state.Claim
	failed := fmt.Sprintf("attempt %d failed (%s, %s): %s", claim.Attempt, f.class, f.verdict.Reason, strings.TrimRight(f.verdict.Message, ". "))
	if text := s.advice(r.kind.Driver).Explain(advice.Attempt{Class: f.class, Reason: f.verdict.Reason, Message: f.verdict.Message}); text != "" {
		failed += ". " + text
	}
	if f.class == rkev1.ClassUnauthorized {
		failed += ". " + r.credentialHelp(s)
	}
	failed += s.cleaning
	if claim.Operation == state.Create {
		r.reportFailed(s, f.class, f.at, do != claimAgain)
	}
	if do == claimAgain {
		return r.startAgain(ctx, s, f, failed)
	}
	s.status.NextAttemptTime = nil
	if do == stallInDoubt {
		return step.Stall(rkev1.ServerMayExistReason, errors.New(failed))
	}
	// The message lists the inputs of requestHash.
	cost := ""
	if f.made >= jobrunner.MadeBudget {
		cost = fmt.Sprintf("%d attempts created a server and then failed, and each server costs money. ", f.made)
	}
	return step.Stall(rkev1.AttemptsExhaustedReason, fmt.Errorf("%s. %sThe manager makes no further attempt until the machine, its credential, its bootstrap data, its NodeDriver or the "+
		"manager's settings (proxy, CA, image) change, or the annotation %s gets a new value", failed, cost, rkev1.RetryAnnotation))
}

// startAgain starts the attempt after one that failed, when its time has come.
func (r *Reconciler) startAgain(ctx context.Context, s *scope, f facts, failed string) error {
	claim := s.state.Claim
	w := wanted{claim: claim.Again(claim.Try + 1), failed: failed, at: f.at}
	if claim.Operation == state.Create && jobrunner.IsShared(f.class) {
		// What all wait for has no times of its own: the one that asks next has.
		w.ask.NotBefore, w.at = w.at, time.Time{}
		if r.breaker.Freed(s.request) {
			w.claim.Try = 1
		}
	}
	w.claim.Made = f.made
	return r.startInTurn(ctx, s, w)
}

// record keeps how the attempt ended, after its Job is gone.
func (s *scope) record(v jobrunner.Verdict) {
	claim := s.state.Claim
	last := &rkev1.AttemptStatus{Operation: string(claim.Operation), Number: claim.Attempt, Outcome: string(v.Outcome)}
	if known := s.status.LastAttempt; isSame(known, last) {
		last.EndTime = known.EndTime
	}
	if !v.Start.IsZero() {
		last.StartTime = &metav1.Time{Time: v.Start.Truncate(time.Second)}
	}
	switch {
	case last.EndTime == nil:
		s.fresh = true
		// The time of our own clock, because the back-off starts there: with the time of a node
		// whose clock is wrong, the manager might retry without a pause, or never.
		ended := v.End
		if since := s.now.Sub(v.End); since < 0 || since > maxSkew {
			ended = s.now
		}
		last.EndTime = &metav1.Time{Time: ended.Truncate(time.Second)}
	case last.EndTime.Sub(s.now) > maxSkew:
		last.EndTime = &metav1.Time{Time: s.now.Truncate(time.Second)} // written while our own clock was ahead
	}
	s.status.FailureReason, s.status.FailureMessage = "", ""
	if v.Outcome != state.Succeeded {
		last.Class, last.Message, last.LogTail = v.Class, v.Message, s.state.LogTail()
		s.status.FailureReason, s.status.FailureMessage = failureReasons[claim.Operation], v.Message
	}
	s.status.LastAttempt = last
}

// failureReasons are the values of Cluster API's earlier contract for a failed machine.
var failureReasons = map[state.Operation]string{state.Create: rkev1.CreateErrorReason, state.Remove: rkev1.DeleteErrorReason}

// isSame reports whether two are one attempt.
func isSame(known, last *rkev1.AttemptStatus) bool {
	return known != nil && known.Operation == last.Operation && known.Number == last.Number
}

// succeeded reports the result of the last attempt in the operation's condition, and so in its
// event.
func (s *scope) succeeded() {
	claim := s.state.Claim
	if claim.Operation == state.Remove {
		text := fmt.Sprintf("Job %s removed server %s", s.status.JobName, s.state.InstanceName)
		if result := s.state.Result.Value; s.cloud().TakesHosts() && result.Operation == state.Remove {
			text = fmt.Sprintf("Job %s of %s has ended: %s", s.status.JobName, s.state.InstanceName, cmp.Or(strings.Join(result.Notes, "; "), "nothing was on its host"))
		}
		s.conditions.True(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, text)
		return
	}
	text := fmt.Sprintf("Job %s created server %s, attempt %d", s.status.JobName, s.state.InstanceName, claim.Attempt)
	if taken := s.state.Result.Value.Taken; taken != "" && s.state.Result.Value.Operation == state.Create {
		text = fmt.Sprintf("Job %s took over server %s, attempt %d: %s", s.status.JobName, s.state.InstanceName, claim.Attempt, taken)
	}
	s.conditions.True(rkev1.CreateJobCondition, rkev1.JobSucceededReason, text)
}

// maxSkew is the largest accepted difference between the clock of a pod's node and ours.
const maxSkew = time.Minute

// facts is the complete input of next. The fields after state and verdict count only for a failed
// attempt.
type facts struct {
	state   attempt.State
	verdict jobrunner.Verdict
	// changed is true if the request has changed, or if the user asked for another attempt.
	changed bool
	// doubt is true if it is unknown whether a server exists. unlooked is true if only the user can
	// find out, and has not confirmed it yet.
	doubt, unlooked bool
	// stopped is true if no further attempt starts without a change. Otherwise the next attempt
	// starts at this time.
	stopped bool
	at      time.Time
	// class of the failure, and how many attempts have made a server and failed.
	class string
	made  int32
}

// action is the next action for an attempt.
type action string

const (
	claimFirst     action = "claim the first attempt"
	makeJob        action = "make the Job that was claimed"
	awaitJob       action = "wait for the Job"
	finish         action = "continue with the result"
	claimChanged   action = "claim another attempt, because something has changed"
	claimAgain     action = "claim another attempt when its time has come"
	stallInDoubt   action = "wait until the user has checked whether a server exists"
	stallExhausted action = "wait for a change"
)

// notFailed maps the state of an attempt that has not failed to the next action.
var notFailed = map[attempt.State]action{attempt.Unclaimed: claimFirst, attempt.Claimed: makeJob, attempt.Running: awaitJob, attempt.Succeeded: finish}

// next decides.
func (f facts) next() action {
	do, known := notFailed[f.state]
	switch {
	case known:
		return do
	case f.changed && (!f.doubt || !f.unlooked):
		return claimChanged
	case f.doubt:
		return stallInDoubt
	case f.stopped:
		return stallExhausted
	}
	return claimAgain
}
