package provisioningcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	return step.Wait(provv1.DeletingReason, "the machines of the cluster are being deleted, and their servers removed", safetyNet)
}
