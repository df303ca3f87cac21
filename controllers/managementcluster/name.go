package managementcluster

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/controllers/step"
)

const (
	// namePrefix and nameLength are Rancher's for generated names.
	namePrefix, nameLength = "c-m-", 8
	// localName is the name of Rancher's own cluster.
	localName = "local"
)

// names reports whether a management Cluster names the provisioning Cluster as its owner, by
// namespace and name.
func names(management *v3.Cluster, owner types.NamespacedName) bool {
	ref := management.Spec.ProvisioningCluster
	return ref.Namespace == owner.Namespace && ref.Name == owner.Name
}

// find reads the management Cluster that names the Cluster: the one that the Cluster names, or else
// any, because a restored Cluster has no status, and its annotation may be lost.
func (r *Reconciler) find(ctx context.Context, s *scope) error {
	for _, name := range []string{s.Status.ClusterName, s.Annotations[provv1.ManagementClusterNameAnnotation]} {
		if name == "" {
			continue
		}
		found := &v3.Cluster{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, found)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the management Cluster %s: %w", name, err)
		}
		if err == nil && names(found, client.ObjectKeyFromObject(s)) {
			s.management = found
			return nil
		}
	}
	all, err := r.naming(ctx, client.ObjectKeyFromObject(s))
	if err == nil && len(all) > 0 {
		s.management = all[0]
	}
	return err
}

// naming returns the management Clusters that name a provisioning Cluster.
func (r *Reconciler) naming(ctx context.Context, owner types.NamespacedName) ([]*v3.Cluster, error) {
	list := &v3.ClusterList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing management Clusters: %w", err)
	}
	var found []*v3.Cluster
	for i := range list.Items {
		if names(&list.Items[i], owner) {
			found = append(found, list.Items[i].DeepCopy())
		}
	}
	return found, nil
}

// claim gives the Cluster its management Cluster: the one that names it, or another one under a free
// name. A management Cluster of another owner is never adopted.
func (r *Reconciler) claim(ctx context.Context, s *scope) error {
	if s.management != nil && s.management.Spec.ProvisioningCluster.UID != string(s.UID) {
		// The cache may be behind, and still have an earlier Cluster of this name.
		if err := r.checkLive(ctx, s.Cluster); err != nil {
			return err
		}
	}
	name, err := r.keepName(ctx, s)
	if err != nil {
		return err
	}
	if s.management != nil {
		return r.copySpec(ctx, s)
	}
	taken := &v3.Cluster{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: name}, taken)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the management Cluster %s: %w", name, err)
	}
	if err == nil { // find would have taken it if it named the Cluster
		return nameTaken(s, name)
	}
	made := &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	specify(s.Cluster, made)
	err = r.Client.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) { // the next reconcile sees whose it is
		return apierrors.NewConflict(v3.GroupVersion.WithResource("clusters").GroupResource(), name, err)
	}
	if err != nil {
		return fmt.Errorf("creating the management Cluster %s: %w", name, err)
	}
	s.management = made
	return nil
}

// nameTaken does not name the owner, which may be in another tenant's namespace.
func nameTaken(s *scope, name string) error {
	return step.Wait(provv1.NameTakenReason, fmt.Sprintf("the management Cluster %s belongs to another Cluster. For a generated name: kubectl annotate clusters.provisioning.cattle.io %s -n %s %s-",
		name, s.Name, s.Namespace, provv1.ManagementClusterNameAnnotation), 0)
}

// checkLive returns an error if the Cluster in the API server is not the one of the cache.
func (r *Reconciler) checkLive(ctx context.Context, obj *provv1.Cluster) error {
	live := &provv1.Cluster{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return fmt.Errorf("reading the Cluster: %w", err)
	}
	if live.UID != obj.UID {
		return apierrors.NewConflict(provv1.GroupVersion.WithResource("clusters").GroupResource(), obj.Name, fmt.Errorf("it was replaced"))
	}
	return nil
}

// keepName returns the name of the management Cluster, and keeps it in the annotation: the name of an
// existing management Cluster, or the one that the user gave, or a generated one.
func (r *Reconciler) keepName(ctx context.Context, s *scope) (string, error) {
	given := s.Annotations[provv1.ManagementClusterNameAnnotation]
	name := given
	switch {
	case s.management != nil:
		name = s.management.Name
	case given == "":
		name = namePrefix + rand.String(nameLength)
	default:
		if problems := validation.IsDNS1123Label(given); len(problems) > 0 || given == localName {
			return "", step.Wait(provv1.NameInvalidReason, fmt.Sprintf("the annotation %s has no valid name for a management Cluster: a DNS label of at most 63 characters, other than %s. "+
				"For a generated name: kubectl annotate clusters.provisioning.cattle.io %s -n %s %s-",
				provv1.ManagementClusterNameAnnotation, localName, s.Name, s.Namespace, provv1.ManagementClusterNameAnnotation), 0)
		}
	}
	if name == given {
		return name, nil
	}
	patch := client.MergeFromWithOptions(s.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, provv1.ManagementClusterNameAnnotation, name)
	if err := r.Client.Patch(ctx, s.Cluster, patch); err != nil {
		return "", fmt.Errorf("noting the name of the management Cluster: %w", err)
	}
	return name, nil
}

// copySpec brings the management Cluster's specification up to date.
func (r *Reconciler) copySpec(ctx context.Context, s *scope) error {
	before := s.management.DeepCopy()
	specify(s.Cluster, s.management)
	if equality.Semantic.DeepEqual(before, s.management) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.management, patch); err != nil {
		return fmt.Errorf("changing the management Cluster %s: %w", before.Name, err)
	}
	return nil
}

// specify sets the fields of a management Cluster that follow its provisioning Cluster.
func specify(owner *provv1.Cluster, management *v3.Cluster) {
	controllerutil.AddFinalizer(management, v3.ClusterFinalizer)
	if filter := owner.Labels[clusterv1.WatchLabel]; filter != "" {
		metav1.SetMetaDataLabel(&management.ObjectMeta, clusterv1.WatchLabel, filter)
	} else {
		delete(management.Labels, clusterv1.WatchLabel)
	}
	spec := &management.Spec
	spec.DisplayName = owner.Name
	spec.AgentEnvVars = owner.Spec.AgentEnvVars
	spec.LocalClusterAuthEndpoint = owner.Spec.LocalClusterAuthEndpoint
	spec.ProvisioningCluster = v3.ProvisioningClusterReference{Namespace: owner.Namespace, Name: owner.Name, UID: string(owner.UID)}
}

// provider returns the distribution of a version.
func provider(version string) string {
	for _, distribution := range []string{"rke2", "k3s"} {
		if strings.Contains(version, "+"+distribution) {
			return distribution
		}
	}
	return ""
}
