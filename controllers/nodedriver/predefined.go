package nodedriver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-project/drover/driver"
)

// reappear puts a predefined NodeDriver back that was deleted: it can be made inactive, not removed. It comes back inactive,
// for somebody did not want it, as it was brought along.
func (r *Reconciler) reappear(ctx context.Context, name string) error {
	for _, nd := range driver.Predefined() {
		if nd.Name != name {
			continue
		}
		nd.Spec.Active = false
		_, err := r.applier.Create(ctx, &nd)
		// While NodeDrivers as such are taken away, none can come back.
		if err == nil || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("putting the predefined NodeDriver %s back: %w", name, err)
	}
	return nil
}
