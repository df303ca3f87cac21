package admission

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
)

// checkDriver refuses a new object whose driver nobody answers for. A machine of an inactive driver is let through, so that
// an existing cluster can replace a server; new templates and configs are not.
func (h *MachineKinds) checkDriver(ctx context.Context, kind string) error {
	found, err := nodeDriverOf(ctx, h.Cached, kind)
	if err == nil && found == nil {
		// The cache of a replica that has just started may be behind.
		found, err = nodeDriverOf(ctx, h.Live, kind)
	}
	if err != nil {
		return err
	}
	switch {
	case found == nil:
		return refusal("no NodeDriver makes the kind %s: see `kubectl get nodedrivers`, and create one for this driver first", kind)
	case !found.DeletionTimestamp.IsZero():
		return refusal("NodeDriver %s is being deleted and makes no new %s: use another driver, or create the NodeDriver again once it is gone", found.Name, kind)
	case !found.Spec.Active && kind != crdgen.KindsOf(found.DriverName()).Machine:
		return refusal("NodeDriver %s is inactive: set its spec.active to true to make a new %s", found.Name, kind)
	}
	return nil
}

func nodeDriverOf(ctx context.Context, reader client.Reader, kind string) (*v3.NodeDriver, error) {
	var all v3.NodeDriverList
	if err := reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing NodeDrivers: %w", err)
	}
	var found *v3.NodeDriver
	for i := range all.Items {
		nd := &all.Items[i]
		kinds := crdgen.KindsOf(nd.DriverName())
		if kind != kinds.Machine && kind != kinds.MachineTemplate && kind != kinds.Config {
			continue
		}
		// Of several with one driver name, a living active one answers.
		if found == nil || nd.DeletionTimestamp.IsZero() && nd.Spec.Active {
			found = nd
		}
	}
	return found, nil
}
