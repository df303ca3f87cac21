package provisioningcluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/provisioning/observe"
)

// isHeld reports whether nothing is rendered for the Cluster: it is an imported one, or its
// infrastructure is another provider's.
func isHeld(s *scope) bool {
	reason, message := "", ""
	switch {
	case s.Spec.RKEConfig == nil:
		reason, message = provv1.ImportedReason, "the Cluster has no rkeConfig: it is an imported cluster, for which Drover creates nothing"
	case s.Spec.RKEConfig.InfrastructureRef != nil:
		reason, message = provv1.ExternalInfrastructureReason,
			"rkeConfig.infrastructureRef names the infrastructure of another provider, on which Drover does not yet create clusters"
		s.next[reason] = []string{"Remove infrastructureRef, or write the objects of Cluster API directly: " + provisioning.EditCommand(s.Cluster)}
	default:
		return false
	}
	s.conditions.False(provv1.RKEClusterCondition, reason, message)
	s.conditions.False(provv1.ReadyCondition, reason, message)
	return true
}

// findCluster reads the CAPI Cluster. A Cluster that was rendered before waits for it, because a
// move or a restore may still create it, and a second set of servers must be impossible.
func (r *Reconciler) findCluster(ctx context.Context, s *scope) error {
	found := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(s), found)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the CAPI Cluster %s: %w", s.Name, err)
	}
	if err == nil {
		s.capi = found
	}
	if r.paused(s) {
		return step.Wait(clusterv1.PausedReason, "Drover changes nothing while the Cluster or its CAPI Cluster is paused", 0)
	}
	switch {
	case s.capi == nil && s.Annotations[provv1.RenderedAnnotation] == s.Name:
		s.next[provv1.CAPIClusterMissingReason] = []string{fmt.Sprintf("Finish the move or the restore. If the servers are gone for good, let Drover create others: "+
			"kubectl annotate clusters.provisioning.cattle.io %s -n %s %s-", s.Name, s.Namespace, provv1.RenderedAnnotation)}
		return step.Wait(provv1.CAPIClusterMissingReason, fmt.Sprintf("the servers of this Cluster were created before, but its CAPI Cluster %s is missing. "+
			"Drover creates nothing until it appears, for example at the end of a move or a restore", s.Name), 0)
	case s.capi != nil && !s.capi.DeletionTimestamp.IsZero():
		return step.Wait(provv1.DeletingReason, "the CAPI Cluster is being deleted", 0)
	case s.capi != nil && !isOurs(s.Cluster, s.capi):
		return s.taken(s.capi, "CAPI Cluster")
	}
	return nil
}

// paused maintains the condition Paused.
func (r *Reconciler) paused(s *scope) bool {
	switch {
	case annotations.HasPaused(s):
		s.next[clusterv1.PausedReason] = []string{fmt.Sprintf("Resume the Cluster: kubectl annotate clusters.provisioning.cattle.io %s -n %s %s-", s.Name, s.Namespace, clusterv1.PausedAnnotation)}
		s.conditions.True(provv1.PausedCondition, clusterv1.PausedReason, "the Cluster has the annotation "+clusterv1.PausedAnnotation)
	case s.capi != nil && ptr.Deref(s.capi.Spec.Paused, false):
		s.next[clusterv1.PausedReason] = []string{fmt.Sprintf("Resume the CAPI Cluster: kubectl patch clusters.cluster.x-k8s.io %s -n %s "+
			`--type merge -p '{"spec":{"paused":false}}'`, s.Name, s.Namespace)}
		s.conditions.True(provv1.PausedCondition, clusterv1.PausedReason, "the CAPI Cluster is paused: spec.paused is true")
	default:
		s.conditions.False(provv1.PausedCondition, clusterv1.NotPausedReason, "")
		return false
	}
	return true
}

// reference is the owner reference from an object to the Cluster.
func reference(cluster *provv1.Cluster) metav1.OwnerReference {
	return *metav1.NewControllerRef(cluster, provv1.GroupVersion.WithKind("Cluster"))
}

// isOurs reports whether the CAPI Cluster is the Cluster's: the Cluster controls it, or it was
// restored from a backup without its owner.
func isOurs(cluster *provv1.Cluster, obj client.Object) bool {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return ref.UID == cluster.UID
	}
	return observe.IsRendered(cluster.Name, obj) && len(obj.GetOwnerReferences()) == 0
}

// taken reports an object of a needed name that belongs to another owner.
func (s *scope) taken(obj client.Object, kind string) error {
	owner := "it has no owner"
	if refs := obj.GetOwnerReferences(); len(refs) > 0 {
		owner = fmt.Sprintf("its owner is %s %s", refs[0].Kind, refs[0].Name)
	}
	next := "Delete the " + kind + " if it is not needed, or create the Cluster under another name"
	switch of := obj.GetLabels()[rkev1.ClusterNameLabel]; {
	case !observe.IsRendered(of, obj):
	case of == s.Name:
		owner += ", and it is from an earlier Cluster of this name"
		next = "Wait until it is deleted with the earlier Cluster"
	default:
		owner += ", and servers of another Cluster may depend on it"
		next = "Use another name for the Cluster or the pool"
	}
	s.next[provv1.NameTakenReason] = []string{next}
	return step.Wait(provv1.NameTakenReason, fmt.Sprintf("the %s %s exists and does not belong to this Cluster: %s", kind, obj.GetName(), owner), 0)
}
