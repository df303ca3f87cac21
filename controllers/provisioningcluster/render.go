package provisioningcluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
)

// render reads the objects that the rendering depends on, and renders.
func (r *Reconciler) render(ctx context.Context, s *scope) error {
	// Before anything decodes the free-form fields. Admission checks them too.
	if err := planner.CheckSpec(&provisioning.ControlPlane(s.Cluster).Spec); err != nil {
		return step.Stall(rkev1.ConfigInvalidReason, err)
	}
	list := &clusterv1.MachineDeploymentList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{rkev1.ClusterNameLabel: s.Name}); err != nil {
		return fmt.Errorf("listing MachineDeployments: %w", err)
	}
	s.deployments = map[string]*clusterv1.MachineDeployment{}
	in := provisioning.Input{Cluster: s.Cluster, Pools: map[string]provisioning.PoolInput{}}
	for i := range list.Items {
		one := &list.Items[i]
		pool := one.Labels[rkev1.MachinePoolLabel]
		if !belongs(s.capi, one) || one.Name != provisioning.Name(s.Name, pool) {
			continue
		}
		s.deployments[one.Name] = one
		in.Pools[pool] = provisioning.PoolInput{Deployment: one}
	}
	for _, pool := range s.Spec.RKEConfig.MachinePools {
		found, err := r.pool(ctx, s, &pool, in.Pools[pool.Name])
		if err != nil {
			return err
		}
		in.Pools[pool.Name] = found
	}
	var err error
	s.rendered, err = provisioning.Render(in)
	return err
}

// pool reads the Config and the machine template of a pool.
func (r *Reconciler) pool(ctx context.Context, s *scope, pool *provv1.MachinePool, in provisioning.PoolInput) (provisioning.PoolInput, error) {
	if in.Deployment != nil {
		ref := in.Deployment.Spec.Template.Spec.InfrastructureRef
		template, err := r.read(ctx, rkev1.MachineGroupVersion.WithKind(ref.Kind), s.Namespace, ref.Name)
		if err != nil {
			return in, err
		}
		in.Template = template
	}
	ref := pool.MachineConfigRef
	config, err := r.read(ctx, rkev1.MachineConfigGroupVersion.WithKind(ref.Kind), s.Namespace, ref.Name)
	if err != nil {
		return in, err
	}
	if config == nil {
		in.Refused = &provisioning.Finding{Pool: pool.Name, Reason: provv1.ConfigMissingReason, Message: fmt.Sprintf(
			"%s %s does not exist in namespace %s: create it, or name another in machineConfigRef", ref.Kind, ref.Name, s.Namespace)}
		return in, nil
	}
	if owner := metav1.GetControllerOf(config); owner != nil && owner.UID != s.UID {
		in.Refused = &provisioning.Finding{Pool: pool.Name, Reason: provv1.ConfigTakenReason, Message: fmt.Sprintf(
			"%s %s belongs to %s %s: create a Config of its own for this Cluster", ref.Kind, ref.Name, owner.Kind, owner.Name)}
		return in, nil
	}
	in.Config = config
	return in, r.claim(ctx, s, config)
}

// read reads an object of a driver's kind; nil if it or its kind does not exist.
func (r *Reconciler) read(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	if gvk.Kind == "" || name == "" {
		return nil, nil
	}
	if _, err := r.Client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("finding the kind %s: %w", gvk.Kind, err)
	}
	if r.watchKind != nil {
		if err := r.watchKind(gvk); err != nil {
			return nil, err
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, name, err)
	}
	return obj, nil
}

// claim makes the Cluster the owner of a Config, which is then moved and deleted with it.
func (r *Reconciler) claim(ctx context.Context, s *scope, config *unstructured.Unstructured) error {
	if owner := metav1.GetControllerOf(config); owner != nil || !config.GetDeletionTimestamp().IsZero() {
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
