package managementcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/controllers/step"
)

// deleteWith deletes the management Clusters of a provisioning Cluster that is being deleted. Their
// finalizer keeps them until it is gone.
func (r *Reconciler) deleteWith(ctx context.Context, obj *provv1.Cluster) error {
	all, err := r.naming(ctx, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	for _, management := range all {
		if err := r.remove(ctx, management); err != nil {
			return err
		}
	}
	return nil
}

// deleteOrphans deletes the management Clusters of a provisioning Cluster that is gone.
func (r *Reconciler) deleteOrphans(ctx context.Context, owner types.NamespacedName) error {
	all, err := r.naming(ctx, owner)
	if err != nil || len(all) == 0 {
		return err
	}
	err = r.Reader.Get(ctx, owner, &provv1.Cluster{})
	if !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("reading the Cluster: %w", err)
		}
		return nil // the cache is behind, and its event comes
	}
	for _, management := range all {
		if r.WatchFilter != "" && management.Labels[clusterv1.WatchLabel] != r.WatchFilter {
			continue
		}
		if err := r.release(ctx, management); err != nil {
			return err
		}
		if err := r.remove(ctx, management); err != nil {
			return err
		}
	}
	return nil
}

// follow deletes the provisioning Cluster of a management Cluster that is being deleted: admission
// has checked that the user has the right to. An earlier Cluster of the name is gone, so that its
// management Cluster can go.
func (r *Reconciler) follow(ctx context.Context, s *scope) error {
	if s.management.Spec.ProvisioningCluster.UID != string(s.UID) {
		if err := r.checkLive(ctx, s.Cluster); err != nil {
			return err
		}
		return r.release(ctx, s.management)
	}
	uid := s.UID
	err := r.Client.Delete(ctx, s.Cluster, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Cluster %s: %w", s.Name, err)
	}
	return nil
}

func (r *Reconciler) remove(ctx context.Context, management *v3.Cluster) error {
	if !management.DeletionTimestamp.IsZero() {
		return nil
	}
	uid := management.UID
	err := r.Client.Delete(ctx, management, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the management Cluster %s: %w", management.Name, err)
	}
	return nil
}

// release removes the finalizer.
func (r *Reconciler) release(ctx context.Context, management *v3.Cluster) error {
	r.mu.Lock()
	delete(r.written, management.UID)
	r.mu.Unlock()
	_, err := step.DropFinalizer(ctx, r.Client, management, v3.ClusterFinalizer)
	return err
}
