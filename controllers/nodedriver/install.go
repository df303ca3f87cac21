package nodedriver

import (
	"context"
	"errors"
	"slices"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
)

// install learns the driver's flags: from the table made at build time, or from what the probe's driver answered.
func (r *Reconciler) install(_ context.Context, s *scope) error {
	if driver.IsBuiltin(s.nd) {
		flags, known := driver.Builtin(s.nd.DriverName())
		if !known {
			return step.Stall(v3.UnknownBuiltinReason, errors.New("no driver of this name is built in"))
		}
		s.flags = flags
		s.conditions.True(v3.InstalledCondition, v3.BuiltinReason, "rancher/machine "+driver.MachineVersion)
		return nil
	}
	if s.verdict.Outcome != state.Succeeded {
		return s.next
	}
	report := s.verdict.Result.Probe
	if report == nil {
		return step.Stall(v3.ProbeFailedReason, errors.New("the probe succeeded without a report: the image's machine binary does not fit this manager"))
	}
	flags, err := crdgen.DecodeFlags(report.Flags)
	if err != nil {
		return step.Stall(v3.FlagsInvalidReason, err)
	}
	s.flags = flags
	return nil
}

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
