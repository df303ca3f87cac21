// Package attempt runs Jobs for the objects that need work at a cloud: machines,
// NodeDrivers (a probe) and ServerScans.
//
//	Unclaimed ──claim n──▶ Claimed ──Job n──▶ Running ──▶ Succeeded
//	                          ▲                  └──────▶ Failed ──claim n+1──▶ Claimed …
//
// The claim is a note in the object's record. It is written before the Job is created: a controller
// that is interrupted finds either the claim without a Job, or the Job, and never creates two. The
// controllers define the requests and act on the results.
//
// It reads Jobs, their pods and the manager's pull Secrets; it writes records, Jobs and the objects
// that these need, and deletes these objects after their last use.
package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// Runner runs the Jobs of one controller. Its Applier's Client writes, its Reader reads live, its
// Owner is the controller's field owner.
type Runner struct {
	apply.Applier
	// Cache is asked for a Job before the API server is, if given: it may be too new to be there.
	Cache client.Reader
	// Settings of the Jobs.
	Settings jobrunner.Settings
}

// Subject is the object that an attempt is made for.
type Subject struct {
	// Owns reports whether something was made for the object.
	Owns func(metav1.Object) bool
	// Succeeds reports whether something was made for an earlier object of the same kind and name.
	Succeeds func(metav1.Object) bool
}

// TakenError reports that the name of a new object belongs to an object of another owner.
type TakenError struct {
	Kind, Name string
	// Live is the existing object.
	Live client.Object
	// Predecessor is true if an earlier object of the same kind and name left it: the garbage
	// collector may be late.
	Predecessor bool
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%s %s exists and belongs to another object", e.Kind, e.Name)
}

// check returns an error if an existing object does not belong to the owner. A driver must not run
// with another owner's account, and objects that this object owns are deleted with it.
func (o Subject) check(live client.Object) *TakenError {
	if o.Owns(live) {
		return nil
	}
	return &TakenError{Kind: live.GetObjectKind().GroupVersionKind().Kind, Name: live.GetName(), Live: live, Predecessor: o.Succeeds(live)}
}

// Observe collects the evidence about an attempt that e does not have yet: its Job, if it is the
// subject's, and the pods with the labels, if they are of use.
func (r Runner) Observe(ctx context.Context, o Subject, e jobrunner.Evidence, name types.NamespacedName, pods func() client.MatchingLabels) (Attempt, error) {
	job := &batchv1.Job{}
	err := cmp.Or(r.Cache, r.Reader).Get(ctx, name, job)
	if r.Cache != nil && apierrors.IsNotFound(err) {
		err = r.Reader.Get(ctx, name, job)
	}
	if client.IgnoreNotFound(err) != nil {
		return Attempt{}, fmt.Errorf("reading the Job %s: %w", name.Name, err)
	}
	if err == nil && o.Owns(job) {
		e.Job = job
	}
	if isSilent(e) {
		if e.Pods, err = r.Pods(ctx, name.Namespace, pods()); err != nil {
			return Attempt{}, err
		}
	}
	return Judge(e), nil
}

// isSilent reports whether the pods are of use: one may hold the Job up, or may have ended without
// a result.
func isSilent(e jobrunner.Evidence) bool {
	return !e.Told() && (e.Job == nil || ptr.Deref(e.Job.Status.Ready, 0) == 0)
}

// Pods that carry the labels, read live.
func (r Runner) Pods(ctx context.Context, namespace string, labels client.MatchingLabels) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Reader.List(ctx, list, client.InNamespace(namespace), labels); err != nil {
		return nil, fmt.Errorf("listing the pods of Jobs: %w", err)
	}
	return list.Items, nil
}

// Record writes to the record how an attempt ended if its pod did not. After its Job is gone no
// other evidence is left, and an attempt that must not be repeated would be repeated. It returns
// the updated record.
func (r Runner) Record(ctx context.Context, a Attempt, record *corev1.Secret) (*corev1.Secret, error) {
	if a.Evidence.Told() {
		return record, nil
	}
	noted := record.DeepCopy()
	if err := a.Evidence.Keep(a.Verdict, noted); err != nil {
		return record, err
	}
	// The optimistic lock: a result that the pod wrote in between has priority.
	if err := r.Client.Patch(ctx, noted, client.MergeFromWithOptions(record, client.MergeFromWithOptimisticLock{})); err != nil {
		return record, fmt.Errorf("noting in the Secret %s how attempt %d ended: %w", record.Name, a.Evidence.Attempt, err)
	}
	return noted, nil
}

// InvalidError reports that a Secret that a Job needs cannot be built from its inputs.
type InvalidError struct {
	// Pull is true for the pull Secret, false for the request.
	Pull bool
	Err  error
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

// secrets returns the Secrets that the task's Job reads: its request first and, if it needs one,
// its pull Secret. They belong to one attempt.
func (r Runner) secrets(ctx context.Context, task *jobrunner.Task) ([]client.Object, error) {
	if !slices.Contains([]string{"", task.Request.Namespace}, r.Settings.PullNamespace) {
		// Reads only the Secrets that the manager's flags name, and only in the manager's
		// namespace.
		for _, name := range r.Settings.ImagePullSecrets {
			secret := corev1.Secret{}
			err := r.Reader.Get(ctx, client.ObjectKey{Namespace: r.Settings.PullNamespace, Name: name}, &secret)
			if apierrors.IsNotFound(err) {
				continue // the Secret is already in the Jobs' namespace, or the image needs none
			}
			if err != nil {
				return nil, fmt.Errorf("reading the pull Secret %s: %w", name, err)
			}
			task.PullSecrets = append(task.PullSecrets, secret)
		}
	}
	pull, err := jobrunner.PullSecret(*task)
	if err != nil {
		return nil, &InvalidError{Pull: true, Err: err}
	}
	request, err := jobrunner.RequestSecret(*task)
	if err != nil {
		return nil, &InvalidError{Err: err}
	}
	if pull == nil {
		return []client.Object{request}, nil
	}
	return []client.Object{request, pull}, nil
}

// Plan describes an attempt, beside the objects that follow from its task: the pod's account, its
// Secrets, and the Job.
type Plan struct {
	Task jobrunner.Task
	// Record is where the attempt is claimed. It overwrites an existing record.
	Record client.Object
	// Kept is kept after the attempt, beside the record, and is written before it: the record of an
	// earlier manager may contain its content. It may be nil.
	Kept client.Object
	// New is true if none of the subject's objects exist yet.
	New bool
	// Check runs while Kept is written; its error ends the attempt. It may be nil.
	Check func(context.Context) error
	// Unwritten prevents all writes while one of the names belongs to another owner.
	Unwritten bool
	// Taken decides about a name that is taken: if it returns no error, the existing object is
	// overwritten. Without it, Start returns the TakenError.
	Taken func(context.Context, *TakenError) error
}

// Start claims an attempt, creates the objects that its Job needs, and the Job last. It is
// idempotent. It never changes a Job, because a Job's spec is immutable. It may return an
// *InvalidError before it creates anything.
func (r Runner) Start(ctx context.Context, o Subject, p Plan) error {
	own, err := r.secrets(ctx, &p.Task)
	if err != nil {
		return err
	}
	access, binding, job := []client.Object{jobrunner.ServiceAccount(p.Task), jobrunner.Role(p.Task)}, jobrunner.RoleBinding(p.Task), jobrunner.Job(p.Task)
	if p.Task.Request.Operation == state.Probe {
		job = jobrunner.ProbeJob(p.Task)
	}
	if p.Unwritten {
		if err := r.free(ctx, o, slices.Concat(access, own, []client.Object{binding, p.Record, job})...); err != nil {
			return err
		}
	}
	applier := r.Applier
	applier.Check = func(ctx context.Context, live client.Object) error {
		taken := o.check(live)
		switch {
		case taken == nil:
			return nil
		case p.Taken == nil:
			return taken
		}
		return p.Taken(ctx, taken)
	}
	if err := p.begin(ctx, applier); err != nil {
		return err
	}
	if err := applier.Write(ctx, p.Record); err != nil {
		return err
	}
	p.Task.Request.StateUID = p.Record.GetUID()
	if own[0], err = jobrunner.RequestSecret(p.Task); err != nil {
		return &InvalidError{Err: err}
	}
	// The API server allows the RoleBinding only if its Role exists.
	if p.New {
		err, own = applier.Add(ctx, access...), append(own, binding)
	} else {
		_, err = applier.All(ctx, append(access, binding)...)
	}
	if err != nil {
		return err
	}
	if err := applier.Add(ctx, own...); err != nil {
		return err
	}
	return r.create(ctx, job, applier.Check)
}

// begin creates Kept, and at the same time checks whether the attempt may create anything.
func (p Plan) begin(ctx context.Context, applier apply.Applier) error {
	var checking sync.WaitGroup
	var refused, err error
	if p.Check != nil {
		checking.Go(func() { refused = p.Check(ctx) })
	}
	switch {
	case p.Kept == nil:
	case p.New:
		err = applier.Add(ctx, p.Kept)
	default:
		_, err = applier.Apply(ctx, p.Kept)
	}
	checking.Wait()
	return cmp.Or(refused, err)
}

// create creates a Job, unless it exists.
func (r Runner) create(ctx context.Context, job *batchv1.Job, check func(context.Context, client.Object) error) error {
	err := r.Client.Create(ctx, job, client.FieldOwner(r.Owner))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live := &batchv1.Job{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
		return fmt.Errorf("reading the Job that is there: %w", err)
	}
	live.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return check(ctx, live)
}

// podCheck is the longest interval between checks whether a Job has a pod.
const podCheck = 5 * time.Minute

// Mend creates the account objects of a running Job again if they were deleted: without its
// ServiceAccount Kubernetes creates no pod. It returns the wait before the next check, 0 if the Job
// has a pod. If the namespace is being deleted it creates nothing, because the Job is deleted too.
func (r Runner) Mend(ctx context.Context, a Attempt, access ...client.Object) (time.Duration, error) {
	e := a.Evidence
	if a.State != Running || len(e.Pods) > 0 || !isSilent(e) {
		return 0, nil // what runs without a pod has a Job
	}
	age := e.Now.Sub(e.Job.CreationTimestamp.Time)
	if age < jobrunner.PodGrace {
		return min(jobrunner.PodGrace, jobrunner.PodGrace-age), nil
	}
	for _, obj := range access {
		if _, err := r.Create(ctx, obj); err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return 0, fmt.Errorf("restoring the account of the pod of Job %s: %w", e.Job.Name, err)
		}
	}
	return min(age, podCheck), nil
}

// free returns a TakenError if one of the objects exists and does not belong to the subject.
func (r Runner) free(ctx context.Context, o Subject, objects ...client.Object) error {
	for _, obj := range objects {
		live, err := r.metadata(ctx, r.Reader, obj)
		if err != nil {
			return err
		}
		if live == nil {
			continue
		}
		if taken := o.check(live); taken != nil {
			return taken
		}
	}
	return nil
}

// metadata reads the metadata of the object with the same kind and name, nil if it does not exist.
func (r Runner) metadata(ctx context.Context, reader client.Reader, obj client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk, err := apiutil.GVKForObject(obj, r.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	err = reader.Get(ctx, client.ObjectKeyFromObject(obj), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	found.SetGroupVersionKind(gvk)
	return found, nil
}

// Stop deletes a Job, and its pod with it.
func (r Runner) Stop(ctx context.Context, job *batchv1.Job, policy metav1.DeletionPropagation) error {
	err := r.Client.Delete(ctx, job, client.PropagationPolicy(policy), client.Preconditions{UID: &job.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Job %s: %w", job.Name, err)
	}
	return nil
}

// EndPods deletes the pods of a deleted Job, as the garbage collector would do later.
func (r Runner) EndPods(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) error {
	for i := range pods {
		pod := &pods[i]
		if !metav1.IsControlledBy(pod, job) || !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// Clean deletes the objects that belong to the subject, as reader has them. A failed deletion does
// not stop the others.
func (r Runner) Clean(ctx context.Context, o Subject, reader client.Reader, objects ...client.Object) error {
	var errs []error
	for _, obj := range objects {
		live, err := r.metadata(ctx, reader, obj)
		if err != nil {
			errs = append(errs, err)
		}
		if live == nil || !o.Owns(live) || !live.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting the %s %s: %w", live.Kind, live.Name, err))
		}
	}
	return errors.Join(errs...)
}

// SecretsOf names the Secrets of one attempt, which are deleted after its Job has read them.
func (r Runner) SecretsOf(namespace, job string) []client.Object {
	named := func(name string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	if len(r.Settings.ImagePullSecrets) == 0 {
		return []client.Object{named(job)}
	}
	return []client.Object{named(jobrunner.ObjectName(job, "pull")), named(job)}
}

// State is the state of the attempt that a record claims.
type State string

// States of an attempt.
const (
	// Unclaimed: the record claims none.
	Unclaimed State = "Unclaimed"
	// Claimed: its Job was not created yet, or was deleted before its pod did anything.
	Claimed State = "Claimed"
	// Running: its Job or its pod exists and has not ended.
	Running State = "Running"
	// Succeeded: the Job has done its operation.
	Succeeded State = "Succeeded"
	// Failed: it has ended without that, or was cancelled.
	Failed State = "Failed"
)

// UnderWay reports whether no other Job is needed: a Job is running, or has succeeded.
func (s State) UnderWay() bool { return s == Running || s == Succeeded }

// Ended reports whether the attempt is over.
func (s State) Ended() bool { return s == Succeeded || s == Failed }

// Attempt is a claimed attempt as it was seen.
type Attempt struct {
	State    State
	Evidence jobrunner.Evidence
	Verdict  jobrunner.Verdict
}

// Judge returns the state of a claimed attempt.
func Judge(e jobrunner.Evidence) Attempt {
	a := Attempt{State: Failed, Evidence: e, Verdict: jobrunner.OutcomeOf(e)}
	switch {
	case neverStarted(e):
		a.State = Claimed
	case !a.Verdict.Done:
		a.State = Running
	case a.Verdict.Outcome == state.Succeeded:
		a.State = Succeeded
	}
	return a
}

// neverStarted reports whether the claimed attempt's Job was not created yet, or was deleted before
// its pod did anything. It returns false while a pod of an earlier attempt runs.
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
