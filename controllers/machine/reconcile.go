package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// Reconcile brings one machine forward.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s, err := r.load(ctx, request.NamespacedName)
	if err != nil || s == nil {
		return step.Result(err)
	}
	if err := r.findOwners(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	if _, _, owned := s.Owner(); !owned && !s.deleting() && len(s.was) == 0 && s.now.Sub(s.GetCreationTimestamp().Time) < adoptionGrace {
		return reconcile.Result{RequeueAfter: adoptionGrace}, nil // Cluster API has just made it and adopts it soon
	}
	if err := r.loadState(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	err = r.run(ctx, s)
	if noted := s.conditions.Get(rkev1.DeleteJobCondition); s.state.stray != "" || noted != nil && noted.Reason == rkev1.OwnerUnknownReason {
		r.restored.note(s.request, watchKey{kind: "Cluster", name: types.NamespacedName{Namespace: s.GetNamespace(), Name: s.GetLabels()[clusterv1.ClusterNameLabel]}})
	} else {
		r.restored.forget(s.request)
	}
	if finishErr := r.finish(ctx, s, err); finishErr != nil {
		if isWaiting(err) {
			err = nil
		}
		err = errors.Join(err, finishErr)
	}
	return step.Result(err)
}

// run runs the steps that are this machine's turn.
func (r *Reconciler) run(ctx context.Context, s *scope) error {
	if s.conditions.Paused(s.cluster, s) {
		return r.allowMove(ctx, s)
	}
	if s.deleting() {
		if !controllerutil.ContainsFinalizer(s, rkev1.MachineFinalizer) {
			return nil
		}
		err := step.Run(ctx, s, s.conditions, step.Of(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, r.removeServer))
		s.released = err == nil
		return err
	}
	if err := r.inherit(ctx, s); err != nil {
		return err
	}
	if err := r.ensureOwnership(ctx, s); err != nil {
		return err
	}
	made := []step.Step[*scope]{
		step.Of(rkev1.CreateJobCondition, rkev1.JobSucceededReason, r.runCreateJob),
		step.Of(rkev1.StateStoredCondition, rkev1.StateStoredReason, r.collectState),
		{Do: r.takeAlong},
		step.Of(rkev1.ProviderIDKnownCondition, rkev1.ProviderIDSetReason, r.findProviderID),
	}
	before := []step.Step[*scope]{
		step.Of(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, r.awaitCluster),
		{Do: r.adopt},
		step.Of(rkev1.DriverReadyCondition, rkev1.DriverReadyReason, r.resolveDriver),
		step.Of(rkev1.BootstrapReadyCondition, rkev1.BootstrapReadyReason, r.awaitBootstrap),
		step.Of(rkev1.CredentialReadyCondition, rkev1.CredentialReadyReason, r.resolveCredential),
	}
	// While its Job runs, and after the Job has made the server, the objects that it was started
	// with may disappear. An attempt that cannot be read is left to the Job's step, which reports
	// the error in its condition.
	if seen, err := r.observe(ctx, s, state.Create); err != nil || seen.State.UnderWay() {
		s.metPreconditions(before)
		return step.Run(ctx, s, s.conditions, made...)
	}
	return step.Run(ctx, s, s.conditions, append(before, made...)...)
}

func (r *Reconciler) runCreateJob(ctx context.Context, s *scope) error {
	if s.removalBegun() {
		name, _, _ := s.Owner()
		// It gets no other server, because its Machine was to be deleted, and its bootstrap data
		// may have been used up.
		return step.Wait(rkev1.RemovalBegunReason, fmt.Sprintf("the removal of this machine's server was started, and then a move or a restore brought the machine back: "+
			"delete the CAPI Machine %s again. Drover creates no other server for it", name), 0)
	}
	if s.hadServer() {
		// Without its state a healthy server would be made a second time, or be replaced.
		return step.Wait(rkev1.StateMissingReason, fmt.Sprintf("the machine has a server, but the state Secret %s, with its SSH key, is missing or empty: "+
			"restore it from a backup, or delete the machine. Drover then looks for its server and removes it, and a MachineSet creates another machine. Until then Drover does not change the server",
			jobrunner.StateSecretName(s.GetName())), lostCheck)
	}
	return r.attempt(ctx, s, state.Create)
}

// scope is the state of one machine during one reconcile.
type scope struct {
	rkev1.DriverMachine
	request Request
	// management is the management cluster, see Options.
	management string
	// before is the object as stored by the API server, to find changes.
	before *unstructured.Unstructured
	// was are the conditions at the beginning, for events.
	was        []metav1.Condition
	status     rkev1.RKEMachineStatus
	conditions *step.Conditions
	now        time.Time

	// Found by the steps, each for those after it.
	machine *clusterv1.Machine
	// home is the namespace of the objects that are made for the machine, and the prefix of their
	// names: the machine's own namespace and name, except in the fallback.
	home      types.NamespacedName
	cluster   *clusterv1.Cluster
	state     stateSecret
	driver    driverFacts
	bootstrap *corev1.Secret
	// nodeDriver is the name of the driver's NodeDriver object, after it was found.
	nodeDriver string
	// credential is for the driver. recalled is why it is the credential that was used last: its
	// Secret is gone or unusable; else empty.
	credential state.Credential
	recalled   string
	// namespaceGoing is true if the machine has no credential and its namespace is being deleted.
	namespaceGoing bool
	// cleaning is the progress of the plan that cleans the host, may be empty. hasPlan is true if
	// its agent can get such a plan.
	cleaning string
	hasPlan  bool
	// attempt is the claimed attempt after it was read; recorded is true after its end was
	// recorded.
	attempt  *attempt.Attempt
	recorded bool

	// fresh is true if this reconcile is the first to see the end of the last attempt. asked is
	// true if it reached the step where machines wait for their turn.
	fresh, asked bool
	// jobWanted is true if a Job was started, or waits for its start.
	jobWanted bool

	// released is true if the machine's finalizer can be removed.
	released bool
}

func (s *scope) deleting() bool { return !s.GetDeletionTimestamp().IsZero() }

// load reads the machine; nil when it is gone, or not this manager's.
func (r *Reconciler) load(ctx context.Context, key types.NamespacedName) (*scope, error) {
	obj := rkev1.DriverMachine{Unstructured: &unstructured.Unstructured{}}
	obj.SetGroupVersionKind(r.kind.GVK)
	request := Request{Kind: r.kind.GVK, NamespacedName: key}
	r.watchIndex.forget(request)
	err := r.Live.Get(ctx, key, obj.Unstructured)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the machine: %w", err)
	}
	obj.SetManagedFields(nil) // no code here reads them, and they are the larger part of the object
	if gone := err != nil; gone || !r.watched(obj) {
		r.metrics.count(request, tally{})
		r.breaker.Leave(request, r.Clock.Now())
		r.jobs.Release(request)
		r.restored.forget(request)
		if gone {
			return nil, r.releaseOrphan(ctx, request)
		}
		return nil, nil
	}
	status, err := obj.Status()
	if err != nil {
		return nil, err
	}
	s := &scope{DriverMachine: obj, request: request, management: r.Management, before: obj.DeepCopy(),
		was: slices.Clone(status.Conditions), status: status, now: r.Clock.Now()}
	s.conditions = step.NewConditions(&s.status.Conditions, obj.GetGeneration(), s.now)
	s.conditions.Advise = func(c metav1.Condition) []string {
		about, last := s.advice(r.kind.Driver), ptr.Deref(s.status.LastAttempt, rkev1.AttemptStatus{})
		if s.attempt == nil || last.Outcome != string(state.Failed) {
			return about.On(c, nil)
		}
		return about.On(c, &advice.Attempt{Class: last.Class, Reason: s.attempt.Verdict.Reason, Message: last.Message, Removes: last.Operation == string(state.Remove)})
	}
	return s, nil
}

// patch writes metadata and spec in one request, without the status.
func (r *Reconciler) patch(ctx context.Context, s *scope) error {
	patch := client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.Unstructured, patch); err != nil {
		return err
	}
	s.before = s.DeepCopy()
	s.conditions.Observe(s.GetGeneration())
	return nil
}

// ref identifies the machine in the request document.
func (s *scope) ref() jobrunner.MachineRef {
	ref := jobrunner.MachineRef{Namespace: s.GetNamespace(), Name: s.GetName(), UID: string(s.GetUID()),
		Kind: s.GetKind(), ClusterName: s.GetLabels()[clusterv1.ClusterNameLabel], Management: s.management}
	if s.cluster != nil {
		ref.ClusterName, ref.ClusterUID = s.cluster.Name, string(s.cluster.UID)
	}
	return ref
}

// metPreconditions sets the conditions of the preconditions to true: the Job was started, so they
// were met, and no step checks them again. The manager that started the Job may have stopped before
// it set them. If the attempt cannot be read, the conditions stay as they are.
func (s *scope) metPreconditions(before []step.Step[*scope]) {
	for _, p := range before {
		switch {
		case s.attempt == nil || p.Condition == "":
		case meta.IsStatusConditionTrue(s.status.Conditions, p.Condition):
			s.conditions.Hold(p.Condition)
		default:
			s.conditions.True(p.Condition, p.Reason, "")
		}
	}
}
