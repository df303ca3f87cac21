package nodedriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// Annotations of the result Secret: the note of the last started probe. It is written before the
// Job, so that no number is used twice, and a failed probe is remembered after its Job is gone.
const (
	attemptAnnotation = "drover.cattle.io/probe-attempt"
	tryAnnotation     = "drover.cattle.io/probe-try"
)

// probeNet is the interval between checks of a running probe, in case no event reports its end.
const probeNet = time.Minute

// observeProbe starts the probe that the spec asks for, if it was not started, and observes it. It
// returns nil after the probe has ended, with or without success.
func (r *Reconciler) observeProbe(ctx context.Context, s *scope) error {
	result := &corev1.Secret{}
	err := r.opts.Reader.Get(ctx, resultKey(s.nd), result)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the probe's result: %w", err)
	}
	last := readClaim(result)
	if last.Hash != probeHash(s.nd) {
		return r.startProbe(ctx, s, last, 1)
	}
	task := r.task(s.nd, last)
	seen, err := r.runner.Observe(ctx, ours, jobrunner.Evidence{Operation: state.Probe, Attempt: last.Attempt, State: state.Of(result.Data), Now: r.opts.Now()},
		client.ObjectKey{Namespace: driver.CacheNamespace, Name: task.Name()}, func() client.MatchingLabels { return client.MatchingLabels{batchv1.JobNameLabel: task.Name()} })
	if err != nil {
		return err
	}
	verdict := seen.Verdict
	s.job = task.Name()
	s.nd.Status.ProbeAttempts = last.Try
	if seen.State == attempt.Running {
		name := "Job " + driver.CacheNamespace + "/" + task.Name()
		if verdict.Reason == rkev1.PodNotCreatedReason {
			return step.Progress(verdict.Reason, name+" waits: "+verdict.Message, probeNet)
		}
		message := name + " reads the driver"
		if verdict.Message != "" {
			message += ": " + verdict.Message
		}
		after := probeNet
		if job := seen.Evidence.Job; job != nil {
			if left := jobrunner.PodGrace - r.opts.Now().Sub(job.CreationTimestamp.Time); left > 0 {
				after = min(left, jobrunner.PodGrace)
			}
		}
		return step.Progress(v3.ProbingReason, message, after)
	}
	if _, err := r.runner.Record(ctx, seen, result); err != nil {
		return err
	}
	if err := r.cleanUp(ctx, task); err != nil {
		return err
	}
	if !verdict.End.IsZero() {
		s.nd.Status.LastProbeTime = &metav1.Time{Time: verdict.End}
	}
	s.verdict = verdict
	if seen.State == attempt.Succeeded {
		s.nd.Status.ProbeAttempts = 0
		return nil
	}
	return r.afterFailure(ctx, s, last)
}

// afterFailure starts the next probe when it is due; otherwise it records in the scope why the
// NodeDriver waits.
func (r *Reconciler) afterFailure(ctx context.Context, s *scope, last state.Claim) error {
	v := &s.verdict
	if v.Reason == "" {
		v.Reason = v3.ProbeFailedReason
	}
	at, exhausted := jobrunner.NextAttempt(jobrunner.Failure{
		Operation: state.Probe, Class: v.Class, Try: last.Try, End: v.End, UID: string(s.nd.UID)})
	if exhausted {
		s.next = step.Stall(v.Reason, fmt.Errorf("%s. To retry, change the spec or annotate the NodeDriver with %s=<any new value>", v.Message, rkev1.RetryAnnotation))
		return nil
	}
	wait := at.Sub(r.opts.Now())
	if wait <= 0 {
		return r.startProbe(ctx, s, last, last.Try+1)
	}
	s.next = step.Wait(v.Reason, fmt.Sprintf("%s. Attempt %d failed, the next starts at %s", v.Message, last.Try, at.UTC().Format("15:04:05 MST")), wait)
	return nil
}

// startProbe creates the objects of another probe, the Job last.
func (r *Reconciler) startProbe(ctx context.Context, s *scope, last state.Claim, try int32) error {
	if err := r.abandonProbe(ctx, s.nd, last); err != nil {
		return err
	}
	next := state.Claim{Attempt: last.Attempt + 1, Try: try, Hash: probeHash(s.nd)}
	task := r.task(s.nd, next)
	for {
		job, err := r.job(ctx, task)
		if err != nil {
			return err
		}
		if job == nil {
			break
		}
		next.Attempt++ // the Job is still there though its note is lost
		task = r.task(s.nd, next)
	}
	record := jobrunner.ResultSecret(task)
	record.Annotations = map[string]string{attemptAnnotation: strconv.Itoa(int(next.Attempt)),
		tryAnnotation: strconv.Itoa(int(next.Try)), rkev1.RequestHashAnnotation: next.Hash}
	err := r.runner.Start(ctx, ours, attempt.Plan{Task: task, Record: record})
	if _, invalid := errors.AsType[*attempt.InvalidError](err); invalid {
		return step.Stall(v3.InvalidReason, err)
	}
	if err != nil {
		return fmt.Errorf("starting probe %s: %w", task.Name(), err)
	}
	s.nd.Status.ProbeAttempts, s.job = try, task.Name()
	return step.Progress(v3.ProbingReason, "Job "+driver.CacheNamespace+"/"+task.Name()+" reads the driver", jobrunner.PodGrace)
}

// abandonProbe ends a probe whose answer is not wanted any more.
func (r *Reconciler) abandonProbe(ctx context.Context, nd *v3.NodeDriver, last state.Claim) error {
	if last.Attempt == 0 {
		return nil
	}
	task := r.task(nd, last)
	job, err := r.job(ctx, task)
	if err != nil {
		return err
	}
	if job != nil && !jobrunner.JobEnded(job) {
		if err := r.runner.Stop(ctx, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	return r.cleanUp(ctx, task)
}

// cleanUp removes the objects that only a running probe needs. The request goes last: its existence
// shows that the other objects may still exist.
func (r *Reconciler) cleanUp(ctx context.Context, task jobrunner.Task) error {
	request := &metav1.PartialObjectMetadata{}
	request.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.opts.Reader.Get(ctx, client.ObjectKey{Namespace: driver.CacheNamespace, Name: task.Name()}, request)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	needed := []client.Object{jobrunner.RoleBinding(task), jobrunner.Role(task), jobrunner.ServiceAccount(task)}
	for _, obj := range append(needed, r.runner.SecretsOf(driver.CacheNamespace, task.Name())...) {
		if err := r.runner.Clean(ctx, ours, r.opts.Reader, obj); err != nil {
			return fmt.Errorf("cleaning up after probe %s: %w", task.Name(), err)
		}
	}
	return nil
}

// ours is all that has a probe's name: its namespace is the manager's own.
var ours = attempt.Subject{Owns: func(metav1.Object) bool { return true }}

// job reads live: a cache without the new Job would lead to a second one.
func (r *Reconciler) job(ctx context.Context, task jobrunner.Task) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := r.opts.Reader.Get(ctx, client.ObjectKey{Namespace: driver.CacheNamespace, Name: task.Name()}, job)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading probe Job %s: %w", task.Name(), err)
	}
	return job, nil
}

func (r *Reconciler) task(nd *v3.NodeDriver, c state.Claim) jobrunner.Task {
	return jobrunner.Task{
		Settings: r.opts.Jobs,
		Request: jobrunner.Request{
			Operation: state.Probe, Attempt: c.Attempt,
			Driver: state.DriverRef{Name: nd.DriverName(), URL: nd.Spec.URL, Checksum: strings.ToLower(nd.Spec.Checksum),
				SkipChecksum: nd.Spec.InsecureSkipChecksum},
			Namespace: driver.CacheNamespace, StateSecret: resultKey(nd).Name,
		},
		Owner: metav1.NewControllerRef(nd, v3.GroupVersion.WithKind("NodeDriver")), Hash: c.Hash, Try: c.Try,
	}
}

func resultKey(nd *v3.NodeDriver) client.ObjectKey {
	return client.ObjectKey{Namespace: driver.CacheNamespace, Name: jobrunner.ObjectName("probe", nd.DriverName(), "result")}
}

func readClaim(result *corev1.Secret) state.Claim {
	attempt, _ := state.ReadCount(result.Annotations[attemptAnnotation], 0)
	try, _ := state.ReadCount(result.Annotations[tryAnnotation], 1)
	return state.Claim{Attempt: attempt, Try: try, Hash: result.Annotations[rkev1.RequestHashAnnotation]}
}

// probeHash changes if a probe could have another result: another address, content or version, or a
// retry that the user requested.
func probeHash(nd *v3.NodeDriver) string {
	raw, err := json.Marshal([]any{nd.UID, nd.DriverName(), nd.Spec.URL, strings.ToLower(nd.Spec.Checksum), nd.Spec.InsecureSkipChecksum,
		nd.Spec.Version, nd.Annotations[rkev1.RetryAnnotation]})
	if err != nil {
		return "" // strings and booleans always encode
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
