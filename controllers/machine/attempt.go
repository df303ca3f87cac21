package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// attempt brings one operation forward: it starts its first Job, looks at the one that runs, and after a failure starts the
// next when its time has come. It returns nil when the operation has succeeded.
//
//	no claim ──start──▶ claim n, Job n ──▶ running ──▶ succeeded
//	                         ▲                └──▶ failed ──back-off, or something changed──▶ claim n+1 …
//
// The claim is written before the Job is made: whenever this is interrupted, the next reconcile finds either the claim
// without a Job, and makes the Job, or the Job. Two Jobs of one machine never run together.
func (r *Reconciler) attempt(ctx context.Context, s *scope, operation state.Operation) error {
	if err := s.checkName(); err != nil {
		return err
	}
	s.asked = operation == state.Create
	claim := s.state.Claim
	if !s.state.Claimed || claim.Operation != operation {
		return r.next(ctx, s, wanted{claim: state.Claim{Operation: operation, Attempt: s.firstNumber(operation), Try: 1}})
	}
	evidence, err := r.gather(ctx, s)
	if err != nil {
		return err
	}
	if neverStarted(evidence) {
		return r.start(ctx, s, claim)
	}
	verdict, err := r.settle(ctx, s, evidence)
	if err != nil {
		return err
	}
	s.status.JobName, s.status.Attempts = jobrunner.JobName(s.home.Name, operation, claim.Attempt), claim.Attempt
	if !verdict.Done {
		r.reportMade(s)
		return s.running(evidence, verdict)
	}
	if verdict.Outcome == state.Succeeded {
		r.breaker.Made(s.request, s.now)
		s.succeeded()
		return nil
	}
	return r.again(ctx, s, verdict)
}

// firstNumber is 1, unless the state knows of Jobs that were not claimed.
func (s *scope) firstNumber(operation state.Operation) int32 {
	result := s.state.Result.Value
	if !s.state.Result.IsRead() || result.Operation != operation || result.Attempt < 1 {
		return 1
	}
	return state.Claim{Attempt: result.Attempt}.Again(1).Attempt
}

// gather collects all there is to judge the claimed attempt by. The Job is read past the cache when the cache has none:
// it may be too new to be there.
func (r *Reconciler) gather(ctx context.Context, s *scope) (jobrunner.Evidence, error) {
	if s.evidence != nil {
		return *s.evidence, nil
	}
	evidence, err := r.look(ctx, s)
	if err == nil {
		s.evidence = &evidence
	}
	return evidence, err
}

func (r *Reconciler) look(ctx context.Context, s *scope) (jobrunner.Evidence, error) {
	evidence := jobrunner.Evidence{Operation: s.state.Claim.Operation, Attempt: s.state.Claim.Attempt, State: s.state.State, Now: s.now}
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.JobName(s.home.Name, evidence.Operation, evidence.Attempt)}
	if s.inFallback() {
		r.watchIndex.note(s.request, jobKey(key))
	}
	job := &batchv1.Job{}
	err := r.Cache.Get(ctx, key, job)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, job)
	}
	if client.IgnoreNotFound(err) != nil {
		return evidence, fmt.Errorf("reading the Job %s: %w", key.Name, err)
	}
	if err == nil && s.owns(job) {
		evidence.Job = job
	}
	// A pod is worth a look when it holds the Job up, or ended without a word.
	if evidence.Told() || evidence.Job != nil && evidence.Job.Status.Ready != nil && *evidence.Job.Status.Ready > 0 {
		return evidence, nil
	}
	evidence.Pods, err = r.pods(ctx, s, evidence.Operation)
	return evidence, err
}

// pods of the machine's Jobs for one operation, read live.
func (r *Reconciler) pods(ctx context.Context, s *scope, operation state.Operation) ([]corev1.Pod, error) {
	r.watchIndex.note(s.request, podsKey(string(s.GetUID())))
	list := &corev1.PodList{}
	err := r.Live.List(ctx, list, client.InNamespace(s.home.Namespace), client.MatchingLabels{
		rkev1.MachineUIDLabel: string(s.GetUID()), rkev1.OperationLabel: string(operation)})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of the machine's Jobs: %w", err)
	}
	return list.Items, nil
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

// running says what the Job does, or what it waits for.
func (s *scope) running(e jobrunner.Evidence, v jobrunner.Verdict) error {
	name, after := s.status.JobName, s.untilDue(e.Pods)
	if v.Reason != "" {
		return step.Progress(v.Reason, fmt.Sprintf("Job %s waits: %s", name, v.Message), after)
	}
	return underWay(name, e.Attempt, after)
}

// untilDue is when to look again at pods: nobody tells that one was to end and has not.
func (s *scope) untilDue(pods []corev1.Pod) time.Duration {
	after := safetyNet
	for i := range pods {
		if due := jobrunner.DueAt(&pods[i]); due.After(s.now) {
			after = min(after, due.Sub(s.now)+time.Second)
		}
	}
	return after
}

// underWay says the same from a Job's start to its end, for each change of words would be a write.
func underWay(job string, attempt int32, after time.Duration) error {
	return step.Progress(rkev1.JobRunningReason, fmt.Sprintf("Job %s is under way, attempt %d", job, attempt), after)
}

// again starts the next attempt after a failure, or says when it will be.
func (r *Reconciler) again(ctx context.Context, s *scope, v jobrunner.Verdict) error {
	claim := s.state.Claim
	hash, err := r.requestHash(s, claim.Operation)
	if err != nil {
		return err
	}
	doubt := claim.Operation == state.Create && v.Reason == rkev1.ServerMayExistReason
	if hash != claim.Hash && (!doubt || !s.staysInDoubt(v)) {
		return r.next(ctx, s, wanted{claim: claim.Again(1), ask: breaker.Ask{Changed: true}})
	}
	class := v.Class
	if v.Outcome == state.Cancelled {
		class = rkev1.ClassTransient // its pod was told to stop, by a drain of its node for instance
	}
	made := claim.Made
	if v.Made && v.Outcome == state.Failed {
		made++
	}
	at, stopped := jobrunner.NextAttempt(jobrunner.Failure{Operation: claim.Operation, Class: class, Try: claim.Try, Made: made,
		End: s.status.LastAttempt.EndTime.Time, UID: string(s.GetUID())})
	failed := fmt.Sprintf("attempt %d failed (%s, %s): %s", claim.Attempt, class, v.Reason, v.Message)
	if class == rkev1.ClassUnauthorized {
		failed += ". " + r.credentialHelp(s)
	}
	if claim.Operation == state.Create {
		r.reportFailed(s, class, at, stopped || doubt)
	}
	if doubt {
		s.status.NextAttemptTime = nil
		return step.Stall(rkev1.ServerMayExistReason, errors.New(failed))
	}
	if stopped {
		s.status.NextAttemptTime = nil
		return step.Stall(rkev1.AttemptsExhaustedReason, fmt.Errorf("%s. %s", failed, untilChanged(made)))
	}
	w := r.wantedAfter(s, wanted{failed: failed, at: at}, class)
	w.claim.Made = made
	return r.next(ctx, s, w)
}

// staysInDoubt reports whether another attempt could only say once more that nobody can tell whether there is a server, and write over what
// the one before it had said: there is nobody to ask but the user, who has not looked yet.
func (s *scope) staysInDoubt(v jobrunner.Verdict) bool {
	told := v.Result != nil && v.Result.Retry != nil
	return told && s.looked() < s.state.Claim.Attempt && clouds.Of(s.driver.ref.Name).Finder.Kind == clouds.NoFinder
}

// untilChanged says what wakes a machine that stopped; it is what requestHash is made of.
func untilChanged(made int32) string {
	cost := ""
	if made >= jobrunner.MadeBudget {
		cost = fmt.Sprintf("%d attempts made a server and failed, and each costs money. ", made)
	}
	return fmt.Sprintf("%sNo other attempt is made until the machine, its credential, its bootstrap data, its NodeDriver or the manager's settings "+
		"(proxy, CA, image) change, or the annotation %s gets a new value", cost, rkev1.RetryAnnotation)
}

// record keeps how the attempt ended, after its Job is gone.
func (s *scope) record(v jobrunner.Verdict) {
	claim := s.state.Claim
	last := &rkev1.AttemptStatus{Operation: string(claim.Operation), Number: claim.Attempt, Outcome: string(v.Outcome)}
	known := s.status.LastAttempt
	if known != nil && known.Operation == last.Operation && known.Number == last.Number {
		last.EndTime = known.EndTime
	}
	if !v.Start.IsZero() {
		last.StartTime = &metav1.Time{Time: v.Start.Truncate(time.Second)}
	}
	if last.EndTime != nil && last.EndTime.Sub(s.now) > maxSkew {
		last.EndTime = &metav1.Time{Time: s.now.Truncate(time.Second)} // written while our own clock was ahead
	}
	if last.EndTime == nil {
		s.fresh = true
		last.EndTime = &metav1.Time{Time: s.ended(v).Truncate(time.Second)}
	}
	s.status.FailureReason, s.status.FailureMessage = "", ""
	if v.Outcome != state.Succeeded {
		last.Class, last.Message, last.LogTail = v.Class, v.Message, s.state.LogTail()
		s.status.FailureReason, s.status.FailureMessage = failureReason(claim.Operation), v.Message
	}
	s.status.LastAttempt = last
}

// succeeded says in the operation's condition, and so in its event, what the last attempt has done.
func (s *scope) succeeded() {
	claim := s.state.Claim
	if claim.Operation == state.Remove {
		s.conditions.True(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, fmt.Sprintf("Job %s has removed server %s", s.status.JobName, s.state.InstanceName))
		return
	}
	says := fmt.Sprintf("Job %s has made server %s, attempt %d", s.status.JobName, s.state.InstanceName, claim.Attempt)
	if taken := s.state.Result.Value.Taken; taken != "" && s.state.Result.Value.Operation == state.Create {
		says = fmt.Sprintf("Job %s has taken server %s, attempt %d: %s", s.status.JobName, s.state.InstanceName, claim.Attempt, taken)
	}
	s.conditions.True(rkev1.CreateJobCondition, rkev1.JobSucceededReason, says)
}

// maxSkew is how far the clock of a pod's node may be from ours and still be believed.
const maxSkew = time.Minute

// ended is when an attempt ended by our own clock, for back-off counts from there: a node whose clock is wrong must not make
// us try without a pause, or never again.
func (s *scope) ended(v jobrunner.Verdict) time.Time {
	if since := s.now.Sub(v.End); since < 0 || since > maxSkew {
		return s.now
	}
	return v.End
}

func failureReason(operation state.Operation) string {
	if operation == state.Remove {
		return rkev1.DeleteErrorReason
	}
	return rkev1.CreateErrorReason
}

func isWaiting(err error) bool {
	_, waiting := errors.AsType[*step.Waiting](err)
	_, stalled := errors.AsType[*step.Stalled](err)
	return waiting || stalled
}
