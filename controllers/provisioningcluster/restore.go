package provisioningcluster

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/provisioning"
)

// awaitRestore waits until all objects of a restored CAPI Cluster are restored. A MachineDeployment that
// Drover created in place of a restored one would make a second set of machines. A restored CAPI Cluster
// has no owner, and names its pools in an annotation.
func (r *Reconciler) awaitRestore(ctx context.Context, s *scope, in provisioning.Input) error {
	if s.capi == nil || metav1.GetControllerOf(s.capi) != nil || s.capi.Annotations[provv1.PoolsAnnotation] == "" {
		return nil
	}
	var missing []string
	for kind, obj := range map[string]client.Object{"RKECluster": &rkev1.RKECluster{}, "RKEControlPlane": &rkev1.RKEControlPlane{}} {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s), obj); apierrors.IsNotFound(err) {
			missing = append(missing, kind+" "+s.Name)
		} else if err != nil {
			return fmt.Errorf("reading %s %s: %w", kind, s.Name, err)
		}
	}
	name := provisioning.BootstrapTemplateName(s.Name)
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &rkev1.RKEBootstrapTemplate{}); apierrors.IsNotFound(err) {
		missing = append(missing, "RKEBootstrapTemplate "+name)
	} else if err != nil {
		return fmt.Errorf("reading RKEBootstrapTemplate %s: %w", name, err)
	}
	for pool := range strings.SplitSeq(s.capi.Annotations[provv1.PoolsAnnotation], ",") {
		switch has := in.Pools[pool]; {
		case has.Deployment == nil:
			missing = append(missing, "MachineDeployment "+provisioning.Name(s.Name, pool))
		case has.Template == nil:
			ref := has.Deployment.Spec.Template.Spec.InfrastructureRef
			missing = append(missing, ref.Kind+" "+ref.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	s.next[provv1.RestoreIncompleteReason] = []string{fmt.Sprintf("Restore them. If they are gone for good: kubectl annotate clusters.%s %s -n %s %s-",
		clusterv1.GroupVersion.Group, s.Name, s.Namespace, provv1.PoolsAnnotation)}
	return step.Wait(provv1.RestoreIncompleteReason, fmt.Sprintf("the CAPI Cluster %s was restored, and these objects that it had are missing: %s. Drover creates nothing until they are restored",
		s.Name, listed(missing, ", ")), 0)
}
