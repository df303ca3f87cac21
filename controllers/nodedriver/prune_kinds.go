package nodedriver

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
)

// pruneKinds removes the kinds of drivers that no NodeDriver has: one that was renamed, or removed past its finalizer. Kinds
// of which there is an object stay, for the server behind it, or what somebody wrote, would go with them. It tells whether
// some are left that may be removed later.
func (r *Reconciler) pruneKinds(ctx context.Context, drivers []v3.NodeDriver) (left bool, err error) {
	orphans, err := r.drivenKinds(ctx)
	if err != nil {
		return false, err
	}
	for i := range drivers {
		delete(orphans, drivers[i].DriverName())
		delete(orphans, drivers[i].Status.DriverName)
	}
	for name, young := range orphans {
		found, err := r.users(ctx, name)
		if err != nil {
			return false, err
		}
		if young || found.count > 0 {
			left = true
			continue
		}
		log.FromContext(ctx).Info("Removing the kinds of a driver that has no NodeDriver", "driver", name)
		if _, err := r.removeKinds(ctx, name); err != nil {
			return false, err
		}
	}
	return left, nil
}

// drivenKinds are the names of the drivers that have CRDs of ours, and whether one of them is young.
func (r *Reconciler) drivenKinds(ctx context.Context) (map[string]bool, error) {
	found := map[string]bool{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	err := r.pages(ctx, list, func() {
		for i := range list.Items {
			crd := &list.Items[i]
			if _, ours := crd.Annotations[crdgen.FieldsAnnotation]; ours && crd.DeletionTimestamp.IsZero() {
				name := crd.Labels[rkev1.NodeDriverLabel]
				found[name] = found[name] || r.young(crd)
			}
		}
	}, client.HasLabels{rkev1.NodeDriverLabel})
	if err != nil {
		return nil, fmt.Errorf("looking for kinds of drivers: %w", err)
	}
	return found, nil
}
