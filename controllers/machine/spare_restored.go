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
// reference to a CAPI Machine of another UID, which is not there, so the machine is deleted and nobody asked for it. That Cluster
// API adopts it after that proves nothing: it adopts whatever a Machine of its own names.
//
// No machine that was ever at work here is meant, and an ordinary deletion comes from a CAPI Machine or Cluster that is being
// deleted and waits for it.
func (r *Reconciler) spareRestored(ctx context.Context, s *scope) error {
	name, uid, owned := s.Owner()
	if !owned || !s.state.inherited && !s.restoredWithoutState() || s.GetAnnotations()[rkev1.RemoveRestoredAnnotation] == s.GetName() {
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
	if err == nil && !owner.DeletionTimestamp.IsZero() {
		return nil
	}
	if going, err := r.isTerminating(ctx, s.GetNamespace()); going || err != nil {
		return err
	}
	was, orMachine := fmt.Sprintf("the CAPI Machine %s (UID %s) that its owner reference names was never here: the garbage collector deletes such a machine", name, uid), ""
	if err == nil && owner.UID == uid {
		was, orMachine = fmt.Sprintf("it was being deleted before the CAPI Machine %s came to own it", name), ", or delete the CAPI Machine"
	}
	// That its namespace is being deleted wakes no machine that is so already.
	return step.Wait(rkev1.OwnerUnknownReason, fmt.Sprintf("this machine came from a backup, and %s. Its server is left as it is. To keep it, take the finalizer %s off this machine "+
		"and apply it again without metadata.ownerReferences; the Secret %s waits for it. To remove the server set the annotation %s=%s%s",
		was, rkev1.MachineFinalizer, jobrunner.StateSecretName(s.GetName()), rkev1.RemoveRestoredAnnotation, s.GetName(), orMachine), orphanCheck)
}
