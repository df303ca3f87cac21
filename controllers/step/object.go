package step

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// EnsureFinalizer puts a finalizer on obj and reports whether it wrote. obj is then as the server has it.
func EnsureFinalizer(ctx context.Context, c client.Writer, obj client.Object, finalizer string) (bool, error) {
	return patchMetadata(ctx, c, obj, func() bool { return controllerutil.AddFinalizer(obj, finalizer) })
}

// DropFinalizer takes a finalizer off obj and reports whether it wrote. The object may be gone afterwards, or before.
func DropFinalizer(ctx context.Context, c client.Writer, obj client.Object, finalizer string) (bool, error) {
	wrote, err := patchMetadata(ctx, c, obj, func() bool { return controllerutil.RemoveFinalizer(obj, finalizer) })
	return wrote, client.IgnoreNotFound(err)
}

func patchMetadata(ctx context.Context, c client.Writer, obj client.Object, change func() bool) (bool, error) {
	before := copyOf(obj)
	if !change() {
		return false, nil
	}
	// Finalizers are a list that a merge patch replaces as a whole, so nobody else may have changed it meanwhile.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, obj, patch); err != nil {
		return false, fmt.Errorf("changing the finalizers: %w", err)
	}
	return true, nil
}

// PatchStatus writes obj's status if it differs from before's, and reports whether it wrote. A change that is not of the
// status is not written. The write is refused as a conflict if before is not what the server has.
func PatchStatus(ctx context.Context, c client.StatusClient, before, obj client.Object) (bool, error) {
	data, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return false, fmt.Errorf("comparing the status: %w", err)
	}
	if string(data) == "{}" {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, obj, patch); err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}

// copyOf is a deep copy; everything that is a client.Object copies to one.
func copyOf(obj client.Object) client.Object {
	return obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a deep copy has the type of its original
}
