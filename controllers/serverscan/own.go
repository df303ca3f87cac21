package serverscan

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// Names of what a Job needs follow from the ServerScan's, which its user has chosen: of objects that are there already only
// those that the ServerScan controls are touched.

// checkNames fails when an object that is to be made is there and belongs to somebody else.
func (r *Reconciler) checkNames(ctx context.Context, scan *rkev1.ServerScan, objs ...client.Object) error {
	for _, obj := range objs {
		live, err := r.live(ctx, obj)
		if err != nil {
			return err
		}
		if live == nil || metav1.IsControlledBy(live, scan) {
			continue
		}
		if owner := metav1.GetControllerOf(live); owner != nil && owner.Kind == "ServerScan" && owner.Name == scan.Name {
			return step.Progress(rkev1.NameTakenReason, fmt.Sprintf("the %s %s of an earlier ServerScan of this name goes first", live.Kind, live.Name), leftoverCheck)
		}
		return step.Stall(rkev1.NameTakenReason, fmt.Errorf("there is a %s %s that is not of this ServerScan: give the ServerScan another name", live.Kind, live.Name))
	}
	return nil
}

// deleteOwn deletes an object if the ServerScan controls it.
func (r *Reconciler) deleteOwn(ctx context.Context, scan *rkev1.ServerScan, obj client.Object) error {
	live, err := r.live(ctx, obj)
	if err != nil || live == nil || !metav1.IsControlledBy(live, scan) {
		return err
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, obj, client.Preconditions{UID: &live.UID}))
}

// live reads the metadata of an object of that name; nil when there is none.
func (r *Reconciler) live(ctx context.Context, obj client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk, err := apiutil.GVKForObject(obj, r.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(gvk)
	switch err := r.Reader.Get(ctx, client.ObjectKeyFromObject(obj), found); {
	case err == nil:
		found.SetGroupVersionKind(gvk)
		return found, nil
	case client.IgnoreNotFound(err) == nil:
		return nil, nil
	default:
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, obj.GetName(), err)
	}
}
