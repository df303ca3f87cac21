package machine

import (
	"context"
	"errors"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
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
	if r.justCreated(s) {
		return reconcile.Result{RequeueAfter: adoptionGrace}, nil
	}
	if err := r.loadState(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	err = r.run(ctx, s)
	if finishErr := r.finish(ctx, s, err); finishErr != nil {
		if isWaiting(err) {
			err = nil
		}
		err = errors.Join(err, finishErr)
	}
	return step.Result(err)
}

// justCreated reports whether Cluster API just made the machine and will adopt it at once: there is nothing to say of it yet.
func (r *Reconciler) justCreated(s *scope) bool {
	_, _, owned := s.Owner()
	return !owned && !s.deleting() && len(s.was) == 0 && s.now.Sub(s.GetCreationTimestamp().Time) < adoptionGrace
}

// run runs the steps that are this machine's turn.
func (r *Reconciler) run(ctx context.Context, s *scope) error {
	if s.paused() {
		return r.allowMove(ctx, s)
	}
	if s.deleting() {
		return r.reconcileDelete(ctx, s)
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
		step.Of(rkev1.ProviderIDKnownCondition, rkev1.ProviderIDSetReason, r.findProviderID),
	}
	if r.needsNothing(ctx, s, state.Create) {
		s.metPreconditions()
		if err := step.Run(ctx, s, made...); err != nil {
			return err
		}
		return r.takeAlong(ctx, s)
	}
	if err := step.Run(ctx, s, step.Of(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, r.awaitCluster)); err != nil {
		return err
	}
	if err := r.adopt(ctx, s); err != nil {
		return err
	}
	return step.Run(ctx, s, append([]step.Step[*scope]{
		step.Of(rkev1.DriverReadyCondition, rkev1.DriverReadyReason, r.resolveDriver),
		step.Of(rkev1.BootstrapReadyCondition, rkev1.BootstrapReadyReason, r.awaitBootstrap),
		step.Of(rkev1.CredentialReadyCondition, rkev1.CredentialReadyReason, r.resolveCredential),
	}, made...)...)
}

func (r *Reconciler) runCreateJob(ctx context.Context, s *scope) error {
	if s.removalBegun() {
		return s.undoneDeletion()
	}
	if err := s.awaitState(); err != nil {
		return err
	}
	return r.attempt(ctx, s, state.Create)
}

func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	if !controllerutil.ContainsFinalizer(s, rkev1.MachineFinalizer) {
		return nil
	}
	err := step.Run(ctx, s, step.Of(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, r.removeServer))
	s.released = err == nil
	return err
}

// paused keeps everything as it is while the user paused the Cluster or the machine.
func (s *scope) paused() bool {
	switch {
	case annotations.HasPaused(s):
		s.conditions.True(rkev1.PausedCondition, clusterv1.PausedReason, "the machine has the annotation "+clusterv1.PausedAnnotation)
		return true
	case s.cluster != nil && annotations.IsPaused(s.cluster, s):
		s.conditions.True(rkev1.PausedCondition, clusterv1.PausedReason, "the Cluster is paused: spec.paused is true")
		return true
	}
	s.conditions.False(rkev1.PausedCondition, clusterv1.NotPausedReason, "")
	return false
}
