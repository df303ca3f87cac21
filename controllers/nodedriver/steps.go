package nodedriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// validate checks the spec alone, and the other NodeDrivers, because kinds are named after drivers.
func (r *Reconciler) validate(ctx context.Context, s *scope) error {
	warnings, err := driver.Validate(s.nd)
	if err != nil {
		reason := v3.InvalidReason
		if _, known := driver.Builtin(s.nd.DriverName()); driver.IsBuiltin(s.nd) && !known {
			reason = v3.UnknownBuiltinReason
		}
		return step.Stall(reason, err)
	}
	if s.rules, err = crdgen.RulesFromAnnotations(s.nd.Annotations); err != nil {
		return step.Stall(v3.InvalidReason, err)
	}
	var all v3.NodeDriverList
	if err := r.opts.Client.List(ctx, &all); err != nil {
		return fmt.Errorf("listing NodeDrivers: %w", err)
	}
	if taken := nameTaken(s.nd, all.Items); taken != "" {
		return step.Stall(v3.NameTakenReason, errors.New("NodeDriver "+taken+" has the driver name "+s.nd.DriverName()+
			" already: change spec.displayName of this driver, or delete one of the two"))
	}
	if len(warnings) > 0 {
		s.conditions.True(v3.ValidCondition, v3.WeakChecksumReason, strings.Join(warnings, "; "))
	}
	return nil
}

// nameTaken returns the name of an older NodeDriver of the same driver name: the oldest NodeDriver
// gets the name.
func nameTaken(nd *v3.NodeDriver, all []v3.NodeDriver) string {
	for i := range all {
		other := &all[i]
		older := cmp.Or(other.CreationTimestamp.Compare(nd.CreationTimestamp.Time), cmp.Compare(other.Name, nd.Name)) < 0
		if older && other.DriverName() == nd.DriverName() {
			return other.Name
		}
	}
	return ""
}

// install reads the driver's flags: from the table made at build time, or from the answer of the
// probe's driver.
func (r *Reconciler) install(_ context.Context, s *scope) error {
	if driver.IsBuiltin(s.nd) {
		flags, known := driver.Builtin(s.nd.DriverName())
		if !known {
			return step.Stall(v3.UnknownBuiltinReason, errors.New("Drover has no built-in driver of this name"))
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
		return step.Stall(v3.ProbeFailedReason, errors.New("the probe succeeded without a report: the machine binary in the image has another version than the manager"))
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

// download runs a probe Job that fetches, verifies and caches the binary of an external driver,
// once per requested content.
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

// schema builds the kinds from the flags, and stops if the API server would then prune or reject
// existing objects.
func (r *Reconciler) schema(ctx context.Context, s *scope) error {
	name := s.nd.DriverName()
	fields, err := crdgen.FieldsOf(name, s.flags, s.rules)
	if err != nil {
		return step.Stall(v3.FlagsInvalidReason, err)
	}
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
	if err != nil {
		return step.Stall(v3.FlagsInvalidReason, err)
	}
	if err := r.checkCompatible(ctx, s, fields); err != nil {
		return err
	}
	s.fields, s.crds = fields, []*apiextensionsv1.CustomResourceDefinition{config, template, machine}
	unmatched := crdgen.Unmatched(name, fields, s.rules)
	if _, err := userdata.Way(name, s.nd.Annotations[v3.UserDataAnnotation], fields); err != nil {
		unmatched = append(unmatched, err.Error())
	}
	if len(unmatched) > 0 {
		s.conditions.True(v3.SchemaCompatibleCondition, v3.DoubtfulAnnotationsReason, "check the annotations: "+strings.Join(unmatched, "; "))
	}
	return nil
}

// establish applies the CRDs and waits, by watch, until the API server serves them.
func (r *Reconciler) establish(ctx context.Context, s *scope) error {
	var waiting []string
	for _, crd := range s.crds {
		if _, err := r.applier.Apply(ctx, crd); err != nil {
			return err
		}
		live := &apiextensionsv1.CustomResourceDefinition{}
		// A CRD that was being deleted during the apply may be gone now. It then counts as not
		// established, like a new one.
		if err := r.opts.Reader.Get(ctx, client.ObjectKeyFromObject(crd), live); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading CRD %s: %w", crd.Name, err)
		}
		if why := apply.NotAccepted(live); why != "" {
			return step.Stall(v3.NotEstablishedReason, errors.New("the API server rejects the names of CRD "+crd.Name+": "+why))
		}
		if !apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) || !live.DeletionTimestamp.IsZero() {
			waiting = append(waiting, crd.Name)
		}
	}
	if len(waiting) > 0 {
		return step.Progress(v3.NotEstablishedReason, "waiting for the API server to serve "+strings.Join(waiting, ", "), establishNet)
	}
	return nil
}

// activate records the source of the kinds; the controllers that create servers read it.
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

// deactivate ends the steps of a NodeDriver that is not active. It removes the kinds only if no
// object uses them.
func (r *Reconciler) deactivate(ctx context.Context, s *scope) error {
	if s.nd.Spec.Active {
		return nil
	}
	// Abandon the last probe: no step reads its result.
	result := &corev1.Secret{}
	if err := r.opts.Reader.Get(ctx, resultKey(s.nd), result); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the probe's result: %w", err)
	}
	if err := r.abandonProbe(ctx, s.nd, readClaim(result)); err != nil {
		return err
	}
	name := s.nd.DriverName()
	found, err := r.users(ctx, name)
	if err != nil {
		return err
	}
	if found.count > 0 {
		r.opts.Watch.Ensure(s.nd.Name, name)
		message := "spec.active is false, but the kinds are kept, because " + found.use("them")
		s.conditions.True(v3.ActiveCondition, v3.KeptForMachinesReason, message)
		return s.notReady(v3.KeptForMachinesReason, message, userNet)
	}
	r.opts.Watch.Stop(s.nd.Name)
	if _, err := r.removeKinds(ctx, name); err != nil {
		return err
	}
	s.conditions.Drop(v3.DownloadedCondition, v3.InstalledCondition, v3.SchemaCompatibleCondition, v3.ActiveCondition)
	s.nd.Status.ConfigKind, s.nd.Status.MachineKind, s.nd.Status.MachineTemplateKind, s.nd.Status.Fields = "", "", "", 0
	return s.notReady(v3.InactiveReason, "spec.active is false", 0)
}

func (r *Reconciler) checkCompatible(ctx context.Context, s *scope, fields []crdgen.Field) error {
	name := s.nd.DriverName()
	// The fields of the kinds as they are served now; none if the kinds do not exist or are not
	// ours.
	crd := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(name).Machine)}
	if err := r.opts.Reader.Get(ctx, key, crd); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the present CRD: %w", err)
	}
	old, err := crdgen.FieldsFromCRD(crd)
	if err != nil && !errors.Is(err, crdgen.ErrNoFields) {
		return err
	}
	changes := crdgen.Incompatible(old, fields)
	if len(changes) == 0 {
		return nil
	}
	users, err := r.fieldUsers(ctx, name, old)
	if err != nil {
		return err
	}
	var hits []string
	for _, change := range changes {
		if objects, used := users[change.Field]; used {
			hits = append(hits, fmt.Sprintf("%s, which %s", change.What, objects.use("")))
		}
	}
	if len(hits) == 0 {
		return nil
	}
	r.opts.Watch.Ensure(s.nd.Name, name)
	return step.Stall(v3.SchemaIncompatibleReason, fmt.Errorf("driver %s has changed: %s. Its kinds are not changed. "+
		"Create new templates without the field, roll out the machines, and delete the old templates and configs: "+
		"Drover then applies the change automatically. Or restore the URL, checksum and annotations", name, strings.Join(hits, "; ")))
}

// establishNet is the interval between checks of a CRD whose establishment no event has reported.
const establishNet = 30 * time.Second
