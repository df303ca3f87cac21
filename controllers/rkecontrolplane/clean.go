package rkecontrolplane

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
	"github.com/drover-project/drover/planner"
)

// cleanHosts has agents clean the hosts of machines that are being deleted, if the remove Job could
// not clean them over SSH and the infra machine asks for it. It needs only the Cluster: the rest of
// the control plane may be lost, or be being deleted.
func (r *Reconciler) cleanHosts(ctx context.Context, s *scope) error {
	machines := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return fmt.Errorf("reading the Machines: %w", err)
	}
	plans := sync.OnceValues(func() (map[string]*corev1.Secret, error) { return r.planSecrets(ctx, s) })
	for i := range machines.Items {
		machine := &machines.Items[i]
		uid, err := r.asksForCleaning(ctx, s.cluster, machine)
		if err != nil {
			return err
		}
		if uid == "" {
			continue
		}
		secrets, err := plans()
		if err != nil {
			return err
		}
		secret := secrets[machine.Spec.Bootstrap.ConfigRef.Name]
		if !awaitsCleaning(secret, uid) {
			continue
		}
		if err := r.deliverCleaning(ctx, secret, uid); err != nil {
			return fmt.Errorf("requesting that the host of %s is cleaned: %w", machine.Name, err)
		}
	}
	return nil
}

// asksForCleaning returns the UID in the claim of a host that is to be cleaned by plan; empty
// without such a request. Only a machine that is being deleted may request it.
func (r *Reconciler) asksForCleaning(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (string, error) {
	ref := machine.Spec.InfrastructureRef
	if machine.DeletionTimestamp.IsZero() || !isMember(machine, cluster) || annotations.IsPaused(cluster, machine) ||
		ref.APIGroup != rkev1.MachineGroupVersion.Group {
		return "", nil
	}
	infrastructure := &unstructured.Unstructured{}
	infrastructure.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(ref.Kind))
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: ref.Name}, infrastructure)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	if infrastructure.GetDeletionTimestamp().IsZero() || !metav1.IsControlledBy(infrastructure, machine) { // one that is gone asks for nothing, too
		return "", nil
	}
	return infrastructure.GetAnnotations()[rkev1.CleanByPlanAnnotation], nil
}

// awaitsCleaning reports whether a plan Secret exists without the plan that cleans, and whose agent
// has started a plan before. The agent's journal then proves to the script that the content of the
// host came from plans; otherwise the script could take an earlier k3s for ours.
func awaitsCleaning(secret *corev1.Secret, uid string) bool {
	if secret == nil || secret.Annotations[rkev1.CleansAnnotation] == uid || len(secret.Data[plan.KeyAgentPublicKey]) == 0 {
		return false
	}
	data := secret.Data
	switch plan.State(data[plan.KeyState]) {
	case plan.StateInProgress, plan.StateSucceeded, plan.StateFailed:
		return true
	case plan.StateNone, plan.StatePending, plan.StateCanceled:
	}
	return len(data[plan.KeyAppliedChecksum]) > 0 || len(data[plan.KeyFailedChecksum]) > 0
}

// deliverCleaning replaces the last plan by the plan that cleans the host. The replaced data made
// the machine a member of the cluster.
func (r *Reconciler) deliverCleaning(ctx context.Context, secret *corev1.Secret, uid string) error {
	raw, err := bootstrap.CleanPlan(bootstrap.NewClean(uid, bootstrap.MarkerRoot))
	if err != nil {
		log.FromContext(ctx).Error(err, "A host is not cleaned by plan", "planSecret", secret.Name) // nothing that is tried again mends it
		return nil
	}
	after := secret.DeepCopy()
	after.Data = planner.Delivery{Plan: raw, MaxFailures: plan.Unlimited}.Data(secret.Data)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, rkev1.CleansAnnotation, uid)
	for _, name := range []string{rkev1.JoinedToAnnotation, rkev1.JoinURLAnnotation} {
		delete(after.Annotations, name)
	}
	delete(after.Labels, rkev1.InitNodeLabel)
	return r.Client.Patch(ctx, after, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
}
