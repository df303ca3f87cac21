package rkecontrolplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// release removes the finalizer of a control plane that is being deleted when its Cluster has no
// Machine left. The Secrets with the cluster's authorities and join tokens are deleted with it, and
// cannot be created again with the same content: the manager would lose servers that still run.
func (r *Reconciler) release(ctx context.Context, obj *rkev1.RKEControlPlane) error {
	cluster, machines, err := r.machinesOf(ctx, obj)
	if err != nil {
		return err
	}
	if machines == 0 {
		_, err := step.DropFinalizer(ctx, r.Client, obj, rkev1.ControlPlaneFinalizer)
		return err
	}
	if err := r.cleanHosts(ctx, &scope{RKEControlPlane: obj, cluster: cluster}); err != nil {
		return err
	}
	before := obj.DeepCopy()
	conditions := step.NewConditions(&obj.Status.Conditions, obj.Generation, r.Clock.Now())
	conditions.Advise = func(c metav1.Condition) []string {
		return advice.ControlPlane{Namespace: obj.Namespace, Name: obj.Name, Cluster: cluster.Name, Rendered: obj.IsRendered()}.On(c.Reason)
	}
	reason, message := rkev1.MachinesExistReason, fmt.Sprintf("this RKEControlPlane is being deleted, but it is kept for the Machines of Cluster %s (%d left): "+
		"their servers need its authorities and tokens. It is deleted automatically with the last Machine", cluster.Name, machines)
	if !cluster.DeletionTimestamp.IsZero() {
		reason, message = rkev1.DeletingReason, leaving(cluster, machines)
	}
	conditions.False(rkev1.ReconciledCondition, reason, message)
	conditions.Summarize(rkev1.ReadyCondition, rkev1.ReadyReason, rkev1.ReconciledCondition)
	wrote, err := step.PatchStatus(ctx, r.Client, before, obj)
	if wrote {
		r.emit(obj, before.Status.Conditions)
	}
	if err == nil && !obj.IsOf(cluster) { // the Cluster's Machines wake the control plane that it names
		return step.Wait(rkev1.MachinesExistReason, "", releaseAgain)
	}
	return err
}

// leaving reports that a Cluster is being deleted, so that the objects missing during the deletion
// do not look like an error.
func leaving(cluster *clusterv1.Cluster, machines int) string {
	return fmt.Sprintf("the Cluster %s is being deleted. Its Machines are deleted first, and %d of them are left", cluster.Name, machines)
}

// leave reports on a Cluster that is being deleted: its machines get no further plan, and nothing
// is created for it. It reports whether the API answers as long as Nodes may be drained, without an
// alarm when the servers are gone.
func (r *Reconciler) leave(s *scope) {
	s.conditions.False(rkev1.ReconciledCondition, rkev1.DeletingReason, leaving(s.cluster, len(s.members)))
	key := client.ObjectKeyFromObject(s.cluster)
	switch {
	case r.Clusters == nil || !s.Status.Initialized: // it never answered
	case r.Clusters.Reaches(key):
		s.conditions.True(rkev1.AvailableCondition, rkev1.APIAnswersReason, "")
	default:
		server := "the address in Secret " + secret.Name(s.cluster.Name, secret.Kubeconfig)
		s.conditions.Set(rkev1.AvailableCondition, metav1.ConditionUnknown, rkev1.APINotReachedReason, r.unreached(key, server))
	}
}

// releaseAgain is how often to check a control plane that is being deleted and that no event wakes.
const releaseAgain = 30 * time.Second

// machinesOf returns a Cluster to which the control plane belongs and whose Machines need it, and
// the number of these Machines. Of several Clusters it returns any; without one it returns nil.
func (r *Reconciler) machinesOf(ctx context.Context, obj *rkev1.RKEControlPlane) (*clusterv1.Cluster, int, error) {
	clusters, machines := &clusterv1.ClusterList{}, &clusterv1.MachineList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(obj.Namespace)); err != nil {
		return nil, 0, fmt.Errorf("listing Clusters: %w", err)
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if !obj.BelongsTo(cluster) {
			continue
		}
		if err := r.Client.List(ctx, machines, client.InNamespace(obj.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}); err != nil {
			return nil, 0, fmt.Errorf("listing the Machines of Cluster %s: %w", cluster.Name, err)
		}
		needing := slices.DeleteFunc(machines.Items, func(m clusterv1.Machine) bool { return !obj.IsNeededBy(cluster, &m) })
		if len(needing) > 0 {
			return cluster, len(needing), nil
		}
	}
	return nil, 0, nil
}
