package machine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/jobrunner"
)

// spareRestored keeps the garbage collector from destroying a server that lives. A raw backup brings a machine back with an owner
// reference to a CAPI Machine of another UID, which is not there, so the machine is deleted and nobody asked for it.
//
// No machine that was ever at work here is meant: as soon as its owner was seen, its state bears its own UID (inherit), and an
// ordinary deletion comes from a CAPI Machine or Cluster that is being deleted and waits for it.
func (r *Reconciler) spareRestored(ctx context.Context, s *scope) error {
	name, uid, owned := s.Owner()
	if !s.state.inherited || !owned || s.machine != nil || s.GetAnnotations()[rkev1.RemoveRestoredAnnotation] == s.GetName() {
		return nil
	}
	if s.cluster != nil && !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	owner := &clusterv1.Machine{} // an event wakes the machine when the cache was behind
	err := r.Cache.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: name}, owner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the CAPI Machine %s: %w", name, err)
	}
	if err == nil && (owner.UID == uid || !owner.DeletionTimestamp.IsZero()) {
		return nil
	}
	if going, err := r.isTerminating(ctx, s.GetNamespace()); going || err != nil {
		return err
	}
	// That its namespace is being deleted wakes no machine that is so already.
	return step.Wait(rkev1.OwnerUnknownReason, fmt.Sprintf("this machine came from a backup, and the CAPI Machine %s (UID %s) that its owner reference names was never here: "+
		"the garbage collector deletes such a machine. Its server is left as it is. To keep it, take the finalizer %s off this machine and apply it again without "+
		"metadata.ownerReferences; the Secret %s waits for it. To remove the server set the annotation %s=%s",
		name, uid, rkev1.MachineFinalizer, jobrunner.StateSecretName(s.GetName()), rkev1.RemoveRestoredAnnotation, s.GetName()), orphanCheck)
}
