package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

// validate looks at the spec alone, and at the other NodeDrivers, for kinds are named after drivers.
func (r *Reconciler) validate(ctx context.Context, s *scope) error {
	warnings, err := driver.Validate(s.nd)
	if err != nil {
		return step.Stall(reasonOfInvalid(s.nd), err)
	}
	if s.rules, err = crdgen.RulesFromAnnotations(s.nd.Annotations); err != nil {
		return step.Stall(v3.InvalidReason, err)
	}
	if err := r.checkName(ctx, s.nd); err != nil {
		return err
	}
	if len(warnings) > 0 {
		s.conditions.True(v3.ValidCondition, v3.WeakChecksumReason, strings.Join(warnings, "; "))
	}
	return nil
}

func reasonOfInvalid(nd *v3.NodeDriver) string {
	if !driver.IsBuiltin(nd) {
		return v3.InvalidReason
	}
	if _, known := driver.Builtin(nd.DriverName()); !known {
		return v3.UnknownBuiltinReason
	}
	return v3.InvalidReason
}

// checkName gives a driver's name to the oldest NodeDriver that asks for it.
func (r *Reconciler) checkName(ctx context.Context, nd *v3.NodeDriver) error {
	var all v3.NodeDriverList
	if err := r.opts.Client.List(ctx, &all); err != nil {
		return fmt.Errorf("listing NodeDrivers: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.Name != nd.Name && other.DriverName() == nd.DriverName() && isOlder(other, nd) {
			return step.Stall(v3.NameTakenReason, errors.New("NodeDriver "+other.Name+" has the driver name "+nd.DriverName()+
				" already: give this one another spec.displayName, or remove one of them"))
		}
	}
	return nil
}

func isOlder(a, b *v3.NodeDriver) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
