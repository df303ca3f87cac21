package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// driverFacts are what a Job needs to know of the driver and tell it.
type driverFacts struct {
	ref state.DriverRef
	// recorded drivers are what the machine's own objects say, which its namespace's users can write.
	recorded bool
	// template of an external driver's provider IDs.
	template string
	// way is what the NodeDriver's annotation says of how the driver takes user data; may be empty.
	way string
	// values and files are the machine's options.
	values map[string]any
	files  map[string][]byte
	// instanceName is the server's name.
	instanceName string
}

// resolveDriver finds the driver and checks what the machine asks of it.
func (r *Reconciler) resolveDriver(ctx context.Context, s *scope) error {
	found, err := r.nodeDriver(ctx, s)
	if err != nil {
		return err
	}
	if found == nil {
		return step.Wait(rkev1.DriverNotFoundReason, fmt.Sprintf("there is no NodeDriver for %s: create one named %s, or with that displayName",
			r.kind.Driver, r.kind.Driver), 0)
	}
	if reason := unusable(found); reason != "" {
		return step.Wait(rkev1.DriverNotReadyReason, fmt.Sprintf("NodeDriver %s %s", found.Name, reason), 0)
	}
	s.driver = factsOf(found)
	if s.driver.values, s.driver.files, err = crdgen.Options(r.kind.Fields, s.Spec()); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, fmt.Errorf("spec is not what driver %s takes: %w", r.kind.Driver, err))
	}
	if err := crdgen.CheckRules(r.kind.Fields, s.Spec()); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	if err := r.placeInFailureDomain(s); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	return r.nameInstance(s)
}

// placeInFailureDomain asks for the failure domain that Cluster API chose for the Machine, where the driver has an option for it.
// It goes before the template's zone, which is the same for all machines.
func (r *Reconciler) placeInFailureDomain(s *scope) error {
	known := clouds.Of(s.driver.ref.Name)
	has := slices.ContainsFunc(r.kind.Fields, func(field crdgen.Field) bool { return field.Flag == known.ZoneFlag })
	if s.machine == nil || s.machine.Spec.FailureDomain == "" || !has {
		return nil
	}
	value, err := known.ZoneValue(s.machine.Spec.FailureDomain, s.driver.values)
	if err != nil {
		return fmt.Errorf("the Machine's spec.failureDomain: %w", err)
	}
	if s.driver.values == nil {
		s.driver.values = map[string]any{}
	}
	s.driver.values[known.ZoneFlag] = value
	return nil
}

// nameInstance decides the server's name, once.
func (r *Reconciler) nameInstance(s *scope) error {
	if s.driver.instanceName = s.state.InstanceName; s.driver.instanceName != "" {
		return nil
	}
	limit, err := jobrunner.ParseInstanceNameLimit(s.driver.ref.Name, s.GetAnnotations()[rkev1.HostnameLengthLimitAnnotation])
	if err != nil {
		return step.Stall(rkev1.SpecInvalidReason, fmt.Errorf("annotation %s: %w", rkev1.HostnameLengthLimitAnnotation, err))
	}
	name, err := jobrunner.InstanceName(s.GetName(), limit)
	if err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	if err := jobrunner.CheckInstanceName(s.driver.ref.Name, name); err != nil {
		return step.Stall(rkev1.NameTooLongReason, err)
	}
	s.driver.instanceName = name
	return nil
}

// nodeDriver finds the NodeDriver of this kind; nil when there is none.
func (r *Reconciler) nodeDriver(ctx context.Context, s *scope) (*managementv3.NodeDriver, error) {
	r.watchIndex.note(s.request, driverKey(r.kind.Driver))
	all := &managementv3.NodeDriverList{}
	if err := r.Cache.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing the NodeDrivers: %w", err)
	}
	var found *managementv3.NodeDriver
	for i := range all.Items {
		candidate := &all.Items[i]
		if !strings.EqualFold(candidate.DriverName(), r.kind.Driver) && candidate.Status.MachineKind != r.kind.GVK.Kind {
			continue
		}
		// Two may claim one name; only one of them has the kinds.
		if found == nil || candidate.Status.MachineKind == r.kind.GVK.Kind {
			found = candidate
		}
	}
	return found, nil
}

// unusable says why no new server can be made with a driver; empty when one can. A driver that is read anew stays usable as
// it was read before.
func unusable(d *managementv3.NodeDriver) string {
	if !d.DeletionTimestamp.IsZero() {
		return "is being deleted: no new servers are made with it"
	}
	if !d.Spec.Active {
		return "is inactive: set its spec.active to true"
	}
	if isBuiltin(d) {
		if _, ok := driver.Builtin(d.DriverName()); !ok {
			return "is not built in: give its url and checksum"
		}
		return ""
	}
	if d.Status.Digest != "" {
		return ""
	}
	if ready := meta.FindStatusCondition(d.Status.Conditions, managementv3.ReadyCondition); ready != nil && ready.Message != "" {
		return "is not ready: " + ready.Message
	}
	return "is not ready: it was not downloaded and read yet"
}

func isBuiltin(d *managementv3.NodeDriver) bool {
	return strings.HasPrefix(d.Spec.URL, managementv3.BuiltinURLPrefix)
}

// factsOf takes what was verified, not what is asked for, where both are there.
func factsOf(d *managementv3.NodeDriver) driverFacts {
	facts := driverFacts{ref: state.DriverRef{Name: d.DriverName()}, template: d.Spec.ProviderIDTemplate, way: d.Annotations[managementv3.UserDataAnnotation]}
	if isBuiltin(d) {
		facts.ref.Builtin = true
		return facts
	}
	facts.ref.Digest, facts.ref.URL, facts.ref.Checksum = d.Status.Digest, d.Status.AppliedURL, d.Status.AppliedChecksum
	facts.ref.SkipChecksum = d.Spec.InsecureSkipChecksum
	if facts.ref.URL == "" {
		facts.ref.URL, facts.ref.Checksum = d.Spec.URL, d.Spec.Checksum
	}
	if d.Status.DriverName != "" {
		facts.ref.Name = d.Status.DriverName
	}
	return facts
}

// recallDriver finds the driver for a remove: by its NodeDriver if that can be used, else as the server was made, for a
// server must go whatever became of its NodeDriver.
func (r *Reconciler) recallDriver(ctx context.Context, s *scope) error {
	found, err := r.nodeDriver(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case found != nil && (isBuiltin(found) || found.Status.Digest != ""):
		s.driver = factsOf(found)
	case s.state.Driver != nil:
		s.driver = driverFacts{ref: *s.state.Driver, recorded: true}
	case found != nil:
		s.driver = factsOf(found)
	case s.status.DriverURL != "" && !strings.HasPrefix(s.status.DriverURL, managementv3.BuiltinURLPrefix):
		s.driver = driverFacts{ref: state.DriverRef{Name: r.kind.Driver, URL: s.status.DriverURL, Checksum: s.status.DriverHash}, recorded: true}
	default:
		if _, ok := driver.Builtin(r.kind.Driver); !ok {
			return step.Wait(rkev1.DriverNotFoundReason, fmt.Sprintf("the server cannot be removed without its driver, and nothing is known of it: create NodeDriver %s again, or give the server up with the annotation %s=%s",
				r.kind.Driver, rkev1.AbandonAnnotation, s.GetName()), 0)
		}
		s.driver = driverFacts{ref: state.DriverRef{Name: r.kind.Driver, Builtin: true}}
	}
	// A spec that the driver does not take any more is no reason to keep a server: the record has all that counts.
	s.driver.values, s.driver.files, err = crdgen.Options(r.kind.Fields, s.Spec())
	if err != nil {
		s.driver.values, s.driver.files = nil, nil
	}
	// Where a server whose answer was lost is, is in the journal; one that cannot be placed is no reason to keep it.
	_ = r.placeInFailureDomain(s)
	if r.nameInstance(s) != nil {
		s.driver.instanceName = jobrunner.ObjectName(s.GetName())
	}
	return nil
}
