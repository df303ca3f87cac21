package nodedriver

import (
	"context"
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
)

// activate writes down what the kinds were made from, for those who make servers with them.
func (r *Reconciler) activate(_ context.Context, s *scope) error {
	if s.nd.Spec.Builtin {
		r.opts.Watch.Stop(s.nd.Name)
	} else {
		r.opts.Watch.Ensure(s.nd.Name, s.nd.DriverName()) // its first machine brings the finalizer
	}
	kinds := crdgen.KindsOf(s.nd.DriverName())
	status := &s.nd.Status
	status.AppliedURL, status.AppliedChecksum, status.AppliedVersion = s.nd.Spec.URL, strings.ToLower(s.nd.Spec.Checksum), s.nd.Spec.Version
	status.DriverName, status.Fields = s.nd.DriverName(), int32(len(s.fields))
	status.ConfigKind, status.MachineKind, status.MachineTemplateKind = kinds.Config, kinds.Machine, kinds.MachineTemplate
	status.AppliedDockerMachineVersion, status.Digest = driver.MachineVersion, ""
	if !driver.IsBuiltin(s.nd) {
		status.AppliedDockerMachineVersion, status.Digest = "", s.verdict.Result.Probe.Digest
	}
	return nil
}

// deactivate ends the steps of a NodeDriver that is not active. Its kinds go only when nothing uses them.
func (r *Reconciler) deactivate(ctx context.Context, s *scope) error {
	if s.nd.Spec.Active {
		return nil
	}
	if err := r.endProbe(ctx, s.nd); err != nil {
		return err
	}
	name := s.nd.DriverName()
	found, err := r.users(ctx, name)
	if err != nil {
		return err
	}
	if found.count > 0 {
		r.opts.Watch.Ensure(s.nd.Name, name)
		message := "spec.active is false, but the kinds stay, for " + found.use("them")
		s.conditions.True(v3.ActiveCondition, v3.KeptForMachinesReason, message)
		s.notReady(v3.KeptForMachinesReason, message)
		return step.Wait(v3.KeptForMachinesReason, message, userNet)
	}
	r.opts.Watch.Stop(s.nd.Name)
	if _, err := r.removeKinds(ctx, name); err != nil {
		return err
	}
	s.conditions.Drop(v3.DownloadedCondition, v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition)
	s.nd.Status.ConfigKind, s.nd.Status.MachineKind, s.nd.Status.MachineTemplateKind, s.nd.Status.Fields = "", "", "", 0
	s.notReady(v3.InactiveReason, "spec.active is false")
	return step.Wait(v3.InactiveReason, "", 0)
}
