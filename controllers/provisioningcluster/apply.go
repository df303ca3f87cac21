package provisioningcluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/provisioning/observe"
)

// apply writes the objects that differ from the rendered ones: the CAPI Cluster first, because the
// others belong to it.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	cluster := s.rendered.Cluster
	cluster.OwnerReferences = []metav1.OwnerReference{reference(s.Cluster)}
	if s.capi == nil {
		if err := r.findLive(ctx, s); err != nil {
			return err
		}
	}
	if err := r.write(ctx, s, cluster); err != nil {
		return err
	}
	if s.capi == nil {
		s.capi = cluster
	}
	if err := r.note(ctx, s); err != nil {
		return err
	}
	defer r.emitReplaced(s)
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: s.capi.UID}
	for _, obj := range s.rendered.Objects {
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		if err := r.write(ctx, s, obj); err != nil {
			return err
		}
	}
	return nil
}

// sizeFirst sets the first number of machines of a new MachineDeployment that the cluster autoscaler
// scales. It is no applied field, so that the number stays with the autoscaler.
func (r *Reconciler) sizeFirst(ctx context.Context, s *scope, live, written client.Object) error {
	if _, isDeployment := live.(*clusterv1.MachineDeployment); !isDeployment || live.GetUID() != "" {
		return nil
	}
	at := slices.IndexFunc(s.rendered.Pools, func(p provisioning.Pool) bool { return p.Deployment == written.GetName() && p.Autoscaled })
	if at < 0 {
		return nil
	}
	made := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: written.GetNamespace(), Name: written.GetName()}}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"replicas":%d}}`, written.GetUID(), s.rendered.Pools[at].Rendered)
	if err := r.Client.Patch(ctx, made, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner+"-size")); err != nil {
		return fmt.Errorf("setting the first size of MachineDeployment %s: %w", made.Name, err)
	}
	written.SetGeneration(made.Generation)
	return nil
}

// findLive looks for a CAPI Cluster of the name that the cache does not have yet.
func (r *Reconciler) findLive(ctx context.Context, s *scope) error {
	live := &clusterv1.Cluster{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(s), live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the CAPI Cluster %s: %w", s.Name, err)
	}
	if !isOurs(s.Cluster, live) {
		return s.taken(live, "CAPI Cluster")
	}
	s.capi = live
	return nil
}

// note records that the Cluster was rendered.
func (r *Reconciler) note(ctx context.Context, s *scope) error {
	if s.Annotations[provv1.RenderedAnnotation] == s.Name {
		return nil
	}
	noted := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, s.UID, provv1.RenderedAnnotation, s.Name)
	if err := r.Client.Patch(ctx, noted, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("noting that the Cluster was rendered: %w", err)
	}
	for _, obj := range []*provv1.Cluster{s.Cluster, s.before} {
		obj.Annotations, obj.ResourceVersion = noted.Annotations, noted.ResourceVersion
	}
	// Another controller may have written its part of the status since this one read the Cluster.
	s.before.Status = *noted.Status.DeepCopy()
	s.Status.ClusterName = noted.Status.ClusterName
	for _, condition := range noted.Status.Conditions {
		if meta.FindStatusCondition(s.Status.Conditions, condition.Type) == nil {
			s.Status.Conditions = append(s.Status.Conditions, condition)
		}
	}
	return nil
}

// write applies an object if it differs from the existing one.
func (r *Reconciler) write(ctx context.Context, s *scope, obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, r.Client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	var live client.Object = &unstructured.Unstructured{}
	if typed, err := r.Client.Scheme().New(gvk); err == nil {
		if known, ok := typed.(client.Object); ok {
			live = known
		}
	}
	if custom, ok := live.(*unstructured.Unstructured); ok {
		custom.SetGroupVersionKind(gvk)
	}
	reverted := false
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(obj), live)
	if apierrors.IsNotFound(err) { // the cache may be behind, and an object of another owner must stay
		err = r.Reader.Get(ctx, client.ObjectKeyFromObject(obj), live)
	}
	switch {
	case err == nil:
		if _, isCluster := obj.(*clusterv1.Cluster); !isCluster && !observe.Belongs(s.capi, live) {
			return s.taken(live, gvk.Kind)
		}
		same, reverts, err := r.applier.Compare(live, obj)
		if err != nil || same {
			s.generations[gvk.Kind+"/"+obj.GetName()] = live.GetGeneration()
			return err
		}
		reverted = reverts
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return fmt.Errorf("reading %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
	written, err := r.applier.Overwrite(ctx, obj)
	if err != nil {
		return err
	}
	if reverted {
		r.event(s, corev1.EventTypeWarning, provv1.RevertedReason, fmt.Sprintf("another writer changed %s %s, and Drover has reverted the change: change the Cluster instead, or pause it with the annotation %s",
			gvk.Kind, obj.GetName(), clusterv1.PausedAnnotation))
	}
	s.noteReplaced(live, obj)
	if err := r.sizeFirst(ctx, s, live, written); err != nil {
		return err
	}
	obj.SetUID(written.GetUID())
	s.generations[gvk.Kind+"/"+obj.GetName()] = written.GetGeneration()
	return nil
}
