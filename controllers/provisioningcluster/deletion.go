package provisioningcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/controllers/step"
)

// delete deletes the CAPI Cluster, which deletes all that belongs to it, and waits for its end. It
// returns nil when the Cluster is gone.
func (r *Reconciler) delete(ctx context.Context, s *scope) error {
	err := r.deleteCluster(ctx, s)
	if err != nil {
		if waiting, ok := asWaiting(err); ok {
			s.conditions.False(provv1.RKEClusterCondition, waiting.Reason, waiting.Message)
			s.conditions.False(provv1.ReadyCondition, waiting.Reason, waiting.Message)
		}
		return err
	}
	_, err = step.DropFinalizer(ctx, r.Client, s.Cluster, provv1.ClusterFinalizer)
	return err
}

func (r *Reconciler) deleteCluster(ctx context.Context, s *scope) error {
	live := &clusterv1.Cluster{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(s), live)
	if apierrors.IsNotFound(err) || err == nil && !isOurs(s.Cluster, live) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the CAPI Cluster %s: %w", s.Name, err)
	}
	if s.capi = live; r.paused(s) {
		return step.Wait(clusterv1.PausedReason, "the Cluster is being deleted, and Drover deletes nothing while it or its CAPI Cluster is paused", 0)
	}
	if live.DeletionTimestamp.IsZero() {
		if err := r.remove(ctx, live, "the CAPI Cluster"); err != nil {
			return err
		}
	}
	message, err := r.pendingDeletion(ctx, s, live)
	if err != nil {
		return err
	}
	return step.Wait(provv1.DeletingReason, message, safetyNet)
}

// holding are the steps of a machine's deletion that a user, a hook or the cluster may hold, before
// the step in which its server is removed.
var holding = []string{clusterv1.MachineDeletingWaitingForPreDrainHookReason, clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason,
	clusterv1.MachineDeletingWaitingForPreTerminateHookReason, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason}

// pendingDeletion says which step the deletion of the CAPI Cluster waits for: the number of its
// machines, and the earliest step of one of them. It notes the name of the step.
func (r *Reconciler) pendingDeletion(ctx context.Context, s *scope, cluster *clusterv1.Cluster) (string, error) {
	machines := &clusterv1.MachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.Name}); err != nil {
		return "", fmt.Errorf("listing the Machines: %w", err)
	}
	if len(machines.Items) == 0 {
		s.deleting = ptr.Deref(meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterDeletingCondition), metav1.Condition{}).Reason
		return strings.TrimSuffix("no machine is left; the other objects of the cluster are being deleted: "+s.deleting, ": "), nil
	}
	slices.SortFunc(machines.Items, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	message := "the machines of the cluster are being deleted, and their servers removed"
	first := len(holding)
	for i := range machines.Items {
		m := &machines.Items[i]
		deleting := ptr.Deref(meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition), metav1.Condition{})
		if at := slices.Index(holding, deleting.Reason); at >= 0 && at < first {
			first, s.deleting = at, deleting.Reason
			s.next[provv1.DeletingReason] = []string{fmt.Sprintf("See why it waits: drover why machine/%s -n %s", m.Name, s.Namespace)}
			message = fmt.Sprintf("the machines of the cluster are being deleted, and their servers removed: %d remain; %s: %s: %s", len(machines.Items), m.Name, deleting.Reason, deleting.Message)
		}
	}
	return strings.TrimSuffix(message, ": "), nil
}

// emitDeletion writes an event when the deletion begins, and when it waits for another step.
func (r *Reconciler) emitDeletion(s *scope) {
	is := s.conditions.Get(provv1.ReadyCondition)
	if is == nil || is.Reason != provv1.DeletingReason || s.DeletionTimestamp.IsZero() {
		return
	}
	was := meta.FindStatusCondition(s.before.Status.Conditions, provv1.ReadyCondition)
	if was == nil || was.Reason != provv1.DeletingReason || !strings.Contains(was.Message, s.deleting) {
		r.event(s, corev1.EventTypeNormal, provv1.DeletingReason, is.Message)
	}
}
