package machine

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// start claims an attempt and makes its Job.
func (r *Reconciler) start(ctx context.Context, s *scope, claim state.Claim) error {
	var err error
	if claim.Hash, err = r.requestHash(s, claim.Operation); err != nil {
		return err
	}
	task := r.task(s, claim)
	if task.PullSecrets, err = step.PullSecrets(ctx, r.Live, r.Settings, s.home.Namespace); err != nil {
		return err
	}
	pull, err := jobrunner.PullSecret(task)
	if err != nil {
		return step.Wait(rkev1.JobRefusedReason, err.Error(), time.Minute)
	}
	request, err := jobrunner.RequestSecret(task)
	if err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	if err := r.awaitJobLimit(ctx, s, claim.Operation); err != nil {
		return err
	}
	if err := r.dropJob(ctx, s, claim); err != nil {
		return err
	}
	secrets := []client.Object{request}
	if pull != nil {
		secrets = append(secrets, pull)
	}
	if err := r.prepare(ctx, s, task, secrets); err != nil {
		return refused(err)
	}
	r.watchIndex.note(s.request, podsKey(string(s.GetUID())))
	if err := r.createJob(ctx, s, jobrunner.Job(task)); err != nil {
		return refused(err)
	}
	s.jobWanted = true
	s.status.JobName, s.status.Attempts, s.status.InstanceName = task.Name(), claim.Attempt, task.Request.InstanceName
	// Whoever may look at a machine sees it; the state Secret has the whole address.
	s.status.DriverURL, s.status.DriverHash = driver.PublicURL(task.Request.Driver.URL), task.Request.Driver.Checksum
	s.status.NextAttemptTime = nil
	if s.credential.Name != "" {
		s.status.CloudCredentialSecretName = s.credential.Name
	}
	return underWay(task.Name(), claim.Attempt, safetyNet)
}

// prepare writes the claim, and then what the Job needs.
func (r *Reconciler) prepare(ctx context.Context, s *scope, task jobrunner.Task, secrets []client.Object) error {
	secret, err := jobrunner.StateSecret(task)
	if err != nil {
		return err
	}
	applier := r.applier
	applier.Check = func(ctx context.Context, live client.Object) error { return r.takeName(ctx, s, live) }
	account, role, binding := jobrunner.ServiceAccount(task), jobrunner.Role(task), jobrunner.RoleBinding(task)
	objects := []client.Object{account, role}
	if task.Credential.Name != "" {
		credential, err := jobrunner.CredentialSecret(task)
		if err != nil {
			return err
		}
		objects = append([]client.Object{credential}, objects...)
	}
	if !s.state.Credential.IsAbsent() {
		// An earlier manager kept the credential in the state, from where the next write takes it.
		if _, err := applier.All(ctx, objects...); err != nil {
			return err
		}
	}
	if err := r.applier.Write(ctx, secret); err != nil {
		return err
	}
	if s.state.secret == nil {
		if err := applier.Add(ctx, objects...); err != nil {
			return err
		}
		return applier.Add(ctx, append(secrets, binding)...) // a binding is let pass only when its Role is there
	}
	// What a Job may do is the same in all attempts.
	if _, err := applier.All(ctx, append(objects, binding)...); err != nil {
		return err
	}
	return applier.Add(ctx, secrets...)
}

// takeName refuses to write over what was not made for this machine: a driver must not run as somebody else's account, and what
// has this machine for an owner goes with it. What an earlier machine of this name left, for the garbage collector may be
// late, is deleted, and with it the tokens of that machine's pods.
func (r *Reconciler) takeName(ctx context.Context, s *scope, live client.Object) error {
	if s.owns(live) {
		return nil
	}
	kind, name := live.GetObjectKind().GroupVersionKind().Kind, live.GetName()
	if !s.succeeds(live) {
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("there is a %s %s that is not of this machine: delete it, or use another name for the machine", kind, name), foreignCheck)
	}
	if _, err := step.DropFinalizer(ctx, r.Client, live, rkev1.MachineFinalizer); err != nil {
		return fmt.Errorf("releasing the %s %s of an earlier machine: %w", kind, name, err)
	}
	uid := live.GetUID()
	if err := r.Client.Delete(ctx, live, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the %s %s of an earlier machine: %w", kind, name, err)
	}
	return nil
}

// succeeds reports whether an object was made for an earlier machine of the same kind and name. One that a backup brought back
// may have lost its owner.
func (s *scope) succeeds(obj metav1.Object) bool {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return obj.GetLabels()[rkev1.MachineUIDLabel] != ""
	}
	mine := s.Reference()
	return owner.APIVersion == mine.APIVersion && owner.Kind == mine.Kind && owner.Name == mine.Name
}

// dropJob deletes the Job of the attempt before this one: what it left is on the machine.
func (r *Reconciler) dropJob(ctx context.Context, s *scope, next state.Claim) error {
	if next.Attempt <= 1 || next.Attempt == s.state.Claim.Attempt {
		return nil
	}
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.JobName(s.home.Name, next.Operation, next.Attempt-1)}
	job := &batchv1.Job{}
	err := r.Cache.Get(ctx, key, job)
	if err == nil && s.owns(job) {
		err = r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Job %s: %w", key.Name, err)
	}
	return nil
}

// createJob makes a Job unless it is there. It is never changed: a Job's spec cannot be.
func (r *Reconciler) createJob(ctx context.Context, s *scope, job *batchv1.Job) error {
	err := r.Client.Create(ctx, job, client.FieldOwner(FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	live := &batchv1.Job{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), live); err != nil {
		return fmt.Errorf("reading the Job that is there: %w", err)
	}
	if !s.owns(live) {
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("there is a Job %s that is not of this machine: delete it", job.Name), foreignCheck)
	}
	return nil
}

// refused tells apart what the API server will refuse again until somebody changes something.
func refused(err error) error {
	if isWaiting(err) {
		return err
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return step.Wait(rkev1.NamespaceTerminatingReason, "the namespace is being deleted, and no Job can be made in it any more", fallbackCheck)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return step.Wait(rkev1.JobRefusedReason, fmt.Sprintf("the Job cannot be made: %v", err), time.Minute)
	}
	return fmt.Errorf("making the Job: %w", err)
}

// dropRequest deletes the request Secret of a Job that has read it, and the pull Secret.
func (r *Reconciler) dropRequest(ctx context.Context, s *scope) error {
	claim := s.state.Claim
	name := jobrunner.JobName(s.home.Name, claim.Operation, claim.Attempt)
	if len(r.Settings.ImagePullSecrets) > 0 {
		if err := r.dropSecret(ctx, s, jobrunner.ObjectName(name, "pull")); err != nil {
			return err
		}
	}
	return r.dropSecret(ctx, s, name)
}

func (r *Reconciler) dropSecret(ctx context.Context, s *scope, name string) error {
	secret := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: name}
	reader := r.Cache
	if s.inFallback() {
		reader = r.Live // a manager of one namespace caches no Secrets of another
	}
	err := reader.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the Secret %s: %w", key.Name, err)
	}
	if !s.owns(secret) || !secret.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, secret)); err != nil {
		return fmt.Errorf("deleting the Secret %s: %w", key.Name, err)
	}
	return nil
}
