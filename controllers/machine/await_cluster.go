package machine

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
)

// findOwners looks up the CAPI Machine and Cluster as far as they are there; a machine that is being deleted needs neither.
func (r *Reconciler) findOwners(ctx context.Context, s *scope) error {
	name, uid, ok := s.Owner()
	if ok {
		machine := &clusterv1.Machine{}
		err := r.Cache.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the CAPI Machine %s: %w", name, err)
		}
		if err == nil && machine.UID == uid {
			s.machine = machine
		}
	}
	clusterName := s.GetLabels()[clusterv1.ClusterNameLabel]
	if s.machine != nil {
		clusterName = s.machine.Spec.ClusterName
	}
	if clusterName == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: clusterName}
	if s.machine == nil {
		r.watchIndex.note(s.request, clusterKey(key)) // its events come by way of the CAPI Machine else
	}
	cluster := &clusterv1.Cluster{}
	err := r.Cache.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Cluster %s: %w", clusterName, err)
	}
	s.cluster = cluster
	return nil
}

// awaitCluster waits for Cluster API: for the Machine that owns this one, and for its cluster's infrastructure.
func (r *Reconciler) awaitCluster(_ context.Context, s *scope) error {
	name, _, owned := s.Owner()
	if !owned {
		return step.Wait(rkev1.WaitingForOwnerReason,
			"no CAPI Machine owns this machine yet. It is made by naming this kind and name in a Machine's spec.infrastructureRef", 0)
	}
	if s.machine == nil {
		return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("the CAPI Machine %s, which owns this machine, is not there", name), 0)
	}
	if !s.machine.DeletionTimestamp.IsZero() {
		return step.Wait(rkev1.DeletingReason, fmt.Sprintf("the CAPI Machine %s is being deleted: no server is made for it", name), 0)
	}
	if s.cluster == nil {
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the Cluster %s is not there", s.machine.Spec.ClusterName), 0)
	}
	provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned
	if provisioned == nil || !*provisioned {
		return step.Wait(rkev1.WaitingForInfrastructureReason,
			fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet (its spec.infrastructureRef tells which object to look at)", s.cluster.Name), 0)
	}
	return nil
}

// adopt puts the finalizer and the label on the machine, before anything is made for it, and holds up a move until its server is there.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	changed := controllerutil.AddFinalizer(s, rkev1.MachineFinalizer)
	if !blocksMove(s) && !s.removalBegun() {
		blockMove(s)
		changed = true
	}
	if want := jobrunner.ObjectName(s.machine.Name); s.GetLabels()[rkev1.CAPIMachineLabel] == "" {
		labels := maps.Clone(s.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[rkev1.CAPIMachineLabel] = want
		s.SetLabels(labels)
		changed = true
	}
	if !changed {
		return nil
	}
	if err := r.patch(ctx, s); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}
