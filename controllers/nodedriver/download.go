package nodedriver

import (
	"context"
	"slices"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
)

// installReasons are the failures of a probe that had its binary: they belong to the next step.
var installReasons = []string{v3.DriverUnresponsiveReason, v3.FlagsInvalidReason}

// download has the binary of an external driver fetched, verified and cached by a probe Job, once per content asked for.
func (r *Reconciler) download(ctx context.Context, s *scope) error {
	if driver.IsBuiltin(s.nd) {
		s.conditions.True(v3.DownloadedCondition, v3.BuiltinReason, "")
		return nil
	}
	if err := r.observeProbe(ctx, s); err != nil {
		return err
	}
	if s.verdict.Outcome == state.Succeeded || slices.Contains(installReasons, s.verdict.Reason) {
		return nil
	}
	return s.next
}
