package provisioningcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/provisioning/observe"
)

// render reads the objects that the rendering depends on, claims the Configs, and renders.
func (r *Reconciler) render(ctx context.Context, s *scope) error {
	// Before anything decodes the free-form fields. Admission checks them too.
	if err := planner.CheckSpec(&provisioning.ControlPlane(s.Cluster).Spec); err != nil {
		s.next[rkev1.ConfigInvalidReason] = []string{"Correct it: " + provisioning.EditCommand(s.Cluster)}
		// The error names fields of the RKEControlPlane.
		if field, found := strings.CutPrefix(err.Error(), "spec."); found {
			err = errors.New("spec." + provisioning.Path(field))
		}
		return step.Stall(rkev1.ConfigInvalidReason, err)
	}
	in, err := observe.Observer{Client: r.Client, Watch: r.watchKind}.Input(ctx, s.Cluster, s.capi)
	if err != nil {
		return err
	}
	if err := r.awaitRestore(ctx, s, in); err != nil {
		return err
	}
	if in.Cluster, err = r.keepName(ctx, s); err != nil {
		return err
	}
	s.deployments = map[string]*clusterv1.MachineDeployment{}
	claimed := map[string]bool{} // several pools may name one Config
	for _, pool := range in.Pools {
		if pool.Deployment != nil {
			s.deployments[pool.Deployment.Name] = pool.Deployment
		}
		if pool.Config != nil && !claimed[pool.Config.GetKind()+"/"+pool.Config.GetName()] {
			claimed[pool.Config.GetKind()+"/"+pool.Config.GetName()] = true
			if err := r.claim(ctx, s, pool.Config); err != nil {
				return err
			}
		}
	}
	effects, rendered, err := provisioning.Preview(in)
	if err != nil {
		return err
	}
	s.rendered, s.effects = rendered, map[string]provisioning.Effect{}
	for _, effect := range effects {
		s.effects[effect.Pool] = effect
	}
	return nil
}

// keepName returns the Cluster to render. A Cluster that was just restored has no status: until the
// controller of management Clusters has decided, its control plane keeps the name of the management
// Cluster, which is a part of the values of charts.
func (r *Reconciler) keepName(ctx context.Context, s *scope) (*provv1.Cluster, error) {
	if s.capi == nil || s.Status.ClusterName != "" || s.conditions.Get(provv1.ManagementClusterCondition) != nil {
		return s.Cluster, nil
	}
	live := &rkev1.RKEControlPlane{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the RKEControlPlane %s: %w", s.Name, err)
	}
	if live.Spec.ManagementClusterName == "" || !observe.Belongs(s.capi, live) {
		return s.Cluster, nil
	}
	named := s.DeepCopy()
	named.Status.ClusterName = live.Spec.ManagementClusterName
	return named, nil
}

// claim makes the Cluster the owner of a Config, which is then moved and deleted with it.
func (r *Reconciler) claim(ctx context.Context, s *scope, config *unstructured.Unstructured) error {
	if metav1.GetControllerOf(config) != nil || !config.GetDeletionTimestamp().IsZero() {
		return nil
	}
	patch := client.MergeFromWithOptions(config.DeepCopy(), client.MergeFromWithOptimisticLock{})
	claimed := config.DeepCopy()
	claimed.SetOwnerReferences(append(claimed.GetOwnerReferences(), reference(s.Cluster)))
	if err := r.Client.Patch(ctx, claimed, patch); err != nil {
		return fmt.Errorf("becoming the owner of %s %s: %w", config.GetKind(), config.GetName(), err)
	}
	return nil
}
