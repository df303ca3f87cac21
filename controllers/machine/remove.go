package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// removeServer ensures that no server is left. It needs no CAPI Machine (but waits for an existing
// one), no Cluster and no bootstrap data. It needs neither the NodeDriver nor the credential if the
// state records their content.
func (r *Reconciler) removeServer(ctx context.Context, s *scope) error {
	err := step.Run(ctx, s, s.conditions, step.Step[*scope]{Do: r.spareRestored}, step.Step[*scope]{Do: r.inherit}, step.Step[*scope]{Do: r.cancelCreate})
	if err != nil {
		return s.abandoned(err)
	}
	if err := r.endCreate(ctx, s); err != nil {
		return err
	}
	if s.state.secret == nil && meta.IsStatusConditionTrue(s.status.Conditions, rkev1.DeleteJobCondition) {
		noted := s.conditions.Get(rkev1.DeleteJobCondition)
		s.conditions.True(noted.Type, noted.Reason, noted.Message) // see finish
		return nil
	}
	if err := r.askMachine(ctx, s); err != nil {
		return err
	}
	if s.nothingMade() {
		s.conditions.True(rkev1.DeleteJobCondition, rkev1.NothingMadeReason, "no server was ever requested")
		return nil
	}
	return s.abandoned(s.mark(r.removeByJob(ctx, s)))
}

// removeByJob removes the server by a Job, or has a host that the Job could not clean cleaned by
// plan.
func (r *Reconciler) removeByJob(ctx context.Context, s *scope) error {
	seen, err := r.observe(ctx, s, state.Remove)
	if err != nil {
		return err
	}
	cleaned, err := r.cleanByPlan(ctx, s, seen)
	if err != nil {
		return err
	}
	if cleaned {
		s.conditions.True(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, "the machine's agent cleaned the host by plan, after the remove Job could not")
		return nil
	}
	if !seen.State.UnderWay() {
		// What another Job needs.
		if err = r.recallDriver(ctx, s); err == nil {
			err = r.recallCredential(ctx, s)
		}
		if err == nil && s.inFallback() {
			err = r.checkRecordedDriver(ctx, s)
		}
	}
	if err == nil {
		err = r.attempt(ctx, s, state.Remove)
	}
	if stepReason(err) == rkev1.NamespaceTerminatingReason {
		return r.fallBack(ctx, s)
	}
	return err
}

// endCreate reads the last result of the create's pod, because only now the state is final, and
// deletes the pod's input Secrets.
func (r *Reconciler) endCreate(ctx context.Context, s *scope) error {
	if s.state.Claim.Operation == state.Remove {
		return nil
	}
	if result := s.state.Result.Value; result.Operation != s.state.Claim.Operation || result.Attempt != s.state.Claim.Attempt {
		if err := r.loadState(ctx, s); err != nil {
			return err
		}
	}
	if s.state.Claimed && s.state.Claim.Operation == state.Create {
		return r.cleanSecrets(ctx, s)
	}
	return nil
}

// abandoned returns err, unless the user gave up the resources that could not be removed.
func (s *scope) abandoned(err error) error {
	if err == nil || !s.Abandoned() || !isWaiting(err) {
		return err
	}
	// After one attempt, or when none can be made.
	if reason := stepReason(err); strings.HasPrefix(reason, "Job") && reason != rkev1.JobRefusedReason {
		return err
	}
	s.conditions.True(rkev1.DeleteJobCondition, rkev1.AbandonedReason, s.leftBehind())
	return nil
}

// nothingMade reports whether no server was ever requested. A lost state does not show this.
func (s *scope) nothingMade() bool {
	if s.inFallback() || s.removalBegun() {
		return false // a request may have been sent; the Job reports when the server is gone
	}
	return s.state.NothingMade() && !s.mayHaveServer()
}

// mark sets the reason of a failed remove according to its risk.
func (s *scope) mark(err error) error {
	if s.GetAnnotations()[rkev1.ForceRemoveAnnotation] == "true" {
		err = withReason(err, stepReason(err), fmt.Sprintf(". The annotation %s=true does not give up the server, because it may come from a template: set it to the machine's name, %s",
			rkev1.ForceRemoveAnnotation, s.GetName()))
	}
	last := s.status.LastAttempt
	if stepReason(err) != rkev1.WaitingForRetryReason || last == nil || last.Operation != string(state.Remove) {
		return err
	}
	result := s.state.Result
	if result.IsRead() && (!result.Value.ServerMayExist || result.Value.Reason == rkev1.HostNotCleanedReason) {
		return err // the message names the risk
	}
	if server := s.state.Server.Value; last.Class == rkev1.ClassUnauthorized && cmp.Or(server.InstanceID, server.ProviderID) != "" {
		return withReason(err, rkev1.ClassUnauthorized, fmt.Sprintf(". Server %s (%s) exists. Do not abandon it: with a valid credential the next attempt, which then starts immediately, removes it",
			s.state.InstanceName, cmp.Or(server.InstanceID, server.ProviderID)))
	}
	return withReason(err, rkev1.ServerMayExistReason, fmt.Sprintf(". A server named %s may still exist. To give it up, set the annotation %s=%s",
		s.state.InstanceName, rkev1.AbandonAnnotation, s.GetName()))
}

// leftBehind lists the resources that an abandoned machine may leave at its cloud: the server, the
// resources that the driver's Remove would have deleted, and those that it never deletes. For an
// existing host, it lists the remains on the host.
func (s *scope) leftBehind() string {
	cloud := s.cloud()
	text := "a user gave up the server. These resources may remain in the cloud: a server named " + s.state.InstanceName
	if cloud.TakesHosts() {
		text = "a user gave up the host, which was not cleaned: the host of " + s.state.InstanceName
	}
	switch server, recorded := s.state.Server.Value, s.state.Result.Value.Recorded; {
	case server.InstanceID != "":
		text += ", ID " + server.InstanceID
	case recorded != "":
		text += ", recorded by the driver as " + recorded
	}
	for _, address := range s.state.Server.Value.Addresses {
		text += ", " + address.Type + " " + address.Address
	}
	if cloud.NoServer && cloud.Beside == "" {
		return text
	}
	text += ", with " + cmp.Or(cloud.Beside, "its SSH key, disks and other resources that the driver created")
	if cloud.Leftovers != "" {
		text += ". " + cloud.Leftovers
	}
	return text
}

// cloud returns the facts about the cloud of the machine's driver.
func (s *scope) cloud() clouds.Cloud {
	driver := s.driver.ref.Name
	if driver == "" && s.state.Driver != nil {
		driver = s.state.Driver.Name // recallDriver has not run yet
	}
	return clouds.Of(driver)
}

// cancelCreate ends a create Job that still runs. Its pod gets SIGTERM and saves its state;
// foreground deletion keeps the Job until the pod is gone, so that a watch sees the end. When a
// removal was claimed, there was no create Job: a later one, from a manager that lost its lease, is
// in the cache when its event wakes the machine.
//
// cancelCreate ends the pod and deletes the Job without the garbage collector, which may have
// thousands of objects in its queue.
func (r *Reconciler) cancelCreate(ctx context.Context, s *scope) error {
	claimed := s.removalBegun()
	reader := r.Live
	switch {
	case claimed && s.inFallback():
		return nil // no server is made there
	case claimed:
		reader = r.Cache
	}
	jobs := &batchv1.JobList{}
	err := reader.List(ctx, jobs, client.InNamespace(s.home.Namespace), client.MatchingLabels{
		rkev1.MachineUIDLabel: string(s.GetUID()), rkev1.OperationLabel: string(state.Create)})
	if err != nil {
		return fmt.Errorf("listing the machine's Jobs: %w", err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if jobrunner.JobEnded(job) || !s.owns(job) {
			continue
		}
		if job.DeletionTimestamp.IsZero() {
			if err := r.runner.Stop(ctx, job, metav1.DeletePropagationForeground); err != nil {
				return err
			}
		}
		if err := r.awaitPods(ctx, s, job); err != nil {
			return err
		}
		if err := r.runner.Stop(ctx, job, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	if claimed {
		return nil
	}
	return r.awaitPods(ctx, s, nil)
}

// awaitPods waits until no pod of a create Job runs. If job is not nil, it is being deleted:
// awaitPods ends its pods, and waits until it cannot get another pod.
func (r *Reconciler) awaitPods(ctx context.Context, s *scope, job *batchv1.Job) error {
	pods, err := r.runner.Pods(ctx, s.home.Namespace, r.podLabels(s, state.Create))
	if err != nil {
		return err
	}
	text, evidence := "", jobrunner.Evidence{Pods: pods, Now: s.now}
	if pod := evidence.Outliving(); pod != nil {
		if reason, message := evidence.Overdue(pod); reason != "" {
			return step.Progress(reason, message, safetyNet)
		}
		text = fmt.Sprintf("the pod %s of the create Job has not ended yet", pod.Name)
	}
	if job != nil && (text != "" || !s.hadPod(job, pods)) {
		text = fmt.Sprintf("the create Job %s is being cancelled. Its pod saves its state before it stops", job.Name)
		if err := r.runner.EndPods(ctx, job, pods); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	return step.Progress(rkev1.JobCancelledReason, text, s.untilDue(pods))
}

// hadPod reports whether a create Job has had its pod: it is in pods, or it has reported the end of
// the attempt and is gone. A Job retries nothing, so it gets only one pod.
func (s *scope) hadPod(job *batchv1.Job, pods []corev1.Pod) bool {
	claim := s.state.Claim
	ended := jobrunner.Evidence{Operation: state.Create, Attempt: claim.Attempt, State: s.state.State}.Told()
	return ended && job.Name == jobrunner.JobName(s.home.Name, state.Create, claim.Attempt) ||
		slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return metav1.IsControlledBy(&pod, job) })
}

// release removes the finalizers: first of the state, then of the credential, then of the machine.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	if s.state.secret != nil {
		if _, err := step.DropFinalizer(ctx, r.Client, s.state.secret, rkev1.MachineFinalizer); err != nil {
			return fmt.Errorf("releasing the state Secret: %w", err)
		}
	}
	if err := r.leaveFallback(ctx, s); err != nil {
		return err
	}
	kept := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: jobrunner.CredentialSecretName(s.GetName())}, kept)
	if err == nil && (metav1.IsControlledBy(kept, s) || s.succeeds(kept)) {
		_, err = step.DropFinalizer(ctx, r.Client, kept, rkev1.MachineFinalizer)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the Secret with the credential: %w", err)
	}
	_, err = step.DropFinalizer(ctx, r.Client, s.Unstructured, rkev1.MachineFinalizer)
	return err
}
