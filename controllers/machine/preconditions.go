package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-project/drover/advice"
	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// findOwners reads the CAPI Machine and Cluster if they exist; a machine that is being deleted
// needs neither.
func (r *Reconciler) findOwners(ctx context.Context, s *scope) error {
	name, uid, ok := s.Owner()
	if ok {
		machine := &clusterv1.Machine{}
		err := r.Cache.Get(ctx, types.NamespacedName{Namespace: s.GetNamespace(), Name: name}, machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the CAPI Machine %s: %w", name, err)
		}
		if machine.UID == uid {
			s.machine = machine
		}
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: s.GetLabels()[clusterv1.ClusterNameLabel]}
	if s.machine != nil {
		key.Name = s.machine.Spec.ClusterName
	} else {
		r.watchIndex.note(s.request, watchKey{kind: "Cluster", name: key}) // its events come by way of the CAPI Machine else
	}
	if key.Name == "" {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Cache.Get(ctx, key, cluster)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Cluster %s: %w", key.Name, err)
	}
	s.cluster = cluster
	return nil
}

// awaitCluster waits for Cluster API: for the Machine that owns this one, and for its cluster's
// infrastructure.
func (r *Reconciler) awaitCluster(_ context.Context, s *scope) error {
	name, _, owned := s.Owner()
	if !owned {
		return step.Wait(rkev1.WaitingForOwnerReason,
			"no CAPI Machine owns this machine yet. Name this kind and name in spec.infrastructureRef of a CAPI Machine", 0)
	}
	if s.machine == nil {
		return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("the CAPI Machine %s, which owns this machine, does not exist", name), 0)
	}
	if !s.machine.DeletionTimestamp.IsZero() {
		return step.Wait(rkev1.DeletingReason, fmt.Sprintf("the CAPI Machine %s is being deleted, so Drover creates no server for it", name), 0)
	}
	if s.state.stray != "" {
		return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("this machine was restored from a backup, and %s. Kubernetes' garbage collector deletes objects whose owners do not exist. Remove "+
			"metadata.ownerReferences from all restored objects. Until then Drover does nothing for this machine, and a deletion of it does not remove the server", s.state.stray), orphanCheck)
	}
	cluster := types.NamespacedName{Namespace: s.GetNamespace(), Name: s.machine.Spec.ClusterName}
	if others := r.restored.in(watchKey{kind: "Cluster", name: cluster}); len(others) > 0 && s.state.secret == nil {
		return step.Wait(rkev1.WaitingForOwnerReason, fmt.Sprintf("machine %s of this Cluster was restored from a backup, and its owners do not exist. Drover creates no further server until "+
			"this is resolved, because Cluster API may have created this machine as its replacement", others[0].Name), orphanCheck)
	}
	if s.cluster == nil {
		return step.Wait(rkev1.WaitingForClusterReason, fmt.Sprintf("the Cluster %s does not exist", s.machine.Spec.ClusterName), 0)
	}
	provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned
	if provisioned == nil || !*provisioned {
		return step.Wait(rkev1.WaitingForInfrastructureReason,
			fmt.Sprintf("the infrastructure of Cluster %s is not provisioned yet (see the object that its spec.infrastructureRef names)", s.cluster.Name), 0)
	}
	return nil
}

// adopt adds the finalizer and the label to the machine before any object is created for it, and
// blocks a move until its server exists.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	changed := controllerutil.AddFinalizer(s, rkev1.MachineFinalizer)
	if !blocksMove(s) && !s.removalBegun() {
		changed = annotations.AddAnnotations(s, map[string]string{rkev1.BlockMoveAnnotation: ""}) || changed
	}
	if s.GetLabels()[rkev1.CAPIMachineLabel] == "" {
		changed = labels.AddLabels(s, map[string]string{rkev1.CAPIMachineLabel: jobrunner.ObjectName(s.machine.Name)}) || changed
	}
	if !changed {
		return nil
	}
	if err := r.patch(ctx, s); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// bootstrapValueKey is the key of the data in a bootstrap Secret, by Cluster API's contract.
const bootstrapValueKey = "value"

// awaitBootstrap waits for the bootstrap data and checks it before a server is paid for.
func (r *Reconciler) awaitBootstrap(ctx context.Context, s *scope) error {
	name := s.machine.Spec.Bootstrap.DataSecretName
	if name == nil || *name == "" {
		return step.Wait(rkev1.WaitingForBootstrapReason,
			fmt.Sprintf("the CAPI Machine %s has no spec.bootstrap.dataSecretName yet. Its bootstrap provider sets the field", s.machine.Name), 0)
	}
	if len(validation.IsDNS1123Subdomain(*name)) > 0 {
		return step.Stall(rkev1.BootstrapSecretInvalidReason, fmt.Errorf("spec.bootstrap.dataSecretName of the CAPI Machine %s is %q, "+
			"which is not a valid name of a Secret: name a Secret in the Machine's namespace", s.machine.Name, *name))
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: *name}
	r.watchIndex.note(s.request, watchKey{kind: "Secret", name: key})
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return step.Wait(rkev1.BootstrapSecretMissingReason, fmt.Sprintf("the bootstrap Secret %s does not exist: create it with the data under the key %s", *name, bootstrapValueKey), 0)
	}
	if err != nil {
		return fmt.Errorf("reading the bootstrap Secret %s: %w", *name, err)
	}
	if _, ok := secret.Data[bootstrapValueKey]; !ok {
		return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap Secret %s has no key %s: store the data under this key", *name, bootstrapValueKey), 0)
	}
	s.bootstrap = secret
	return r.checkUserData(s)
}

// checkUserData finds an error before the Job does, as far as this needs no parsing: any tenant can
// write the data, and all tenants share the manager.
func (r *Reconciler) checkUserData(s *scope) error {
	summary, err := userdata.Inspect(s.bootstrap.Data[bootstrapValueKey])
	if err != nil {
		return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap data in Secret %s cannot be read: %v", s.bootstrap.Name, err), 0)
	}
	way, err := userdata.Way(s.driver.ref.Name, s.driver.way, r.kind.Fields)
	if err != nil && summary.Format != userdata.Empty {
		return step.Wait(rkev1.UserDataHabitUnknownReason, err.Error(), 0)
	}
	known := clouds.Of(s.driver.ref.Name)
	overSSH := way.Habit == clouds.None && summary.Format != userdata.Empty && (!known.NoServer || known.NeedsKey != "")
	switch {
	case overSSH && s.SSHContact().Mode == rkev1.SSHContactOff:
		return step.Stall(rkev1.SpecInvalidReason, fmt.Errorf("driver %s takes no user data, so Drover sends the bootstrap data over SSH: spec.common.sshContact.mode must not be Off",
			s.driver.ref.Name))
	case overSSH && summary.Format != userdata.Script:
		return step.Wait(rkev1.BootstrapFormatUnsupportedReason, fmt.Sprintf("driver %s takes no user data, so the bootstrap data must be a shell script that begins with #!, "+
			"but the data in Secret %s is %s: use a bootstrap provider that writes a script", s.driver.ref.Name, s.bootstrap.Name, summary.Format), 0)
	}
	if err := r.checkConflicts(s, way); err != nil {
		return err
	}
	if err := s.checkJoined(way); err != nil {
		return err
	}
	if summary.IsUnexplained() {
		s.conditions.True(rkev1.BootstrapReadyCondition, rkev1.BootstrapFormatUnknownReason, fmt.Sprintf("the bootstrap data in Secret %s has an unknown format "+
			"and is passed on unchanged. A script must begin with #!, and cloud-init configuration with #cloud-config", s.bootstrap.Name))
	}
	return nil
}

// checkConflicts rejects options with which the driver would not pass the bootstrap data on.
// Admission rejects them too; this is for machines that existed before, and for those that Cluster
// API made from such a template.
func (r *Reconciler) checkConflicts(s *scope, way clouds.UserData) error {
	values := map[string]any{}
	names := map[string]string{}
	for _, field := range r.kind.Fields {
		values[field.Flag], names[field.Flag] = field.Default, "spec."+field.Name
	}
	maps.Copy(values, s.driver.values)
	if !userdata.Passes(way, values) {
		return nil
	}
	name := func(flag string) string { return cmp.Or(names[flag], "--"+flag) }
	var problems []error
	for _, c := range userdata.Conflicts(s.driver.ref.Name, way, s.driver.values, s.driver.files, name) {
		problems = append(problems, fmt.Errorf("%s: %s", name(c.Flag), c.Why))
	}
	if len(problems) > 0 {
		return step.Stall(rkev1.SpecInvalidReason, errors.Join(problems...))
	}
	return nil
}

// checkJoined checks whether the bootstrap data and the machine's own user data fit together into
// one flag. Without a flag the data is sent over SSH, which has no limit.
func (s *scope) checkJoined(way clouds.UserData) error {
	if way.Flag == "" {
		return nil
	}
	user := s.driver.files[way.Flag]
	if text, _ := s.driver.values[way.Flag].(string); len(user) == 0 && way.Habit != clouds.Base64 {
		user = []byte(text)
	}
	err := userdata.Check(s.driver.ref.Name, userdata.Input{Bootstrap: s.bootstrap.Data[bootstrapValueKey], User: user})
	if err == nil {
		return nil
	}
	if _, tooLarge := errors.AsType[*userdata.TooLargeError](err); tooLarge {
		return step.Wait(rkev1.UserDataTooLargeReason, fmt.Sprintf("%v: shorten the bootstrap data in Secret %s or the user data in this machine's template", err, s.bootstrap.Name), 0)
	}
	if own, unread := userdata.Inspect(user); unread != nil || own.Format == userdata.Opaque {
		return step.Wait(rkev1.UserDataInvalidReason, fmt.Sprintf("the machine's own user data (driver flag --%s) cannot be used with the bootstrap data: %v: correct it in the machine's template",
			way.Flag, err), 0)
	}
	return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap data in Secret %s cannot be joined with the machine's own user data: %v", s.bootstrap.Name, err), 0)
}

// driverFacts are the facts about the driver that a Job needs or reports to it.
type driverFacts struct {
	ref state.DriverRef
	// recorded is true if the facts come from the machine's own objects, which users of its
	// namespace can write.
	recorded bool
	// template of an external driver's provider IDs.
	template string
	// way is the value of the NodeDriver's annotation for how the driver takes user data; may be
	// empty.
	way string
	// values and files are the machine's options.
	values map[string]any
	files  map[string][]byte
	// instanceName is the server's name.
	instanceName string
}

// resolveDriver finds the driver and validates the machine's spec for it.
func (r *Reconciler) resolveDriver(ctx context.Context, s *scope) error {
	found, err := r.nodeDriver(ctx, s)
	if err != nil {
		return err
	}
	if found == nil {
		return step.Wait(rkev1.DriverNotFoundReason, fmt.Sprintf("no NodeDriver exists for %s: create one named %s, or with that displayName",
			r.kind.Driver, r.kind.Driver), 0)
	}
	if reason := unusable(found); reason != "" {
		return step.Wait(rkev1.DriverNotReadyReason, fmt.Sprintf("NodeDriver %s %s", found.Name, reason), 0)
	}
	s.driver = factsOf(found)
	if s.driver.values, s.driver.files, err = crdgen.Options(r.kind.Fields, s.Spec()); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, fmt.Errorf("spec is not valid for driver %s: %w", r.kind.Driver, err))
	}
	if err := crdgen.CheckRules(r.kind.Fields, s.Spec()); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	if err := r.placeInFailureDomain(s); err != nil {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	return r.nameInstance(s)
}

// placeInFailureDomain requests the failure domain that Cluster API chose for the Machine, if the
// driver has an option for it. It has priority over the template's zone, which is the same for all
// machines.
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

// nodeDriver finds the NodeDriver of this kind, nil if it does not exist.
func (r *Reconciler) nodeDriver(ctx context.Context, s *scope) (*managementv3.NodeDriver, error) {
	r.watchIndex.note(s.request, watchKey{kind: "NodeDriver", name: types.NamespacedName{Name: r.kind.Driver}})
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
		// Two NodeDrivers may claim one name; only one of them owns the kinds.
		if found == nil || candidate.Status.MachineKind == r.kind.GVK.Kind {
			found, s.nodeDriver = candidate, candidate.Name
		}
	}
	return found, nil
}

// unusable returns why the driver cannot create a server, empty if it can. While a driver is read
// again, its last version stays usable.
func unusable(d *managementv3.NodeDriver) string {
	if !d.DeletionTimestamp.IsZero() {
		return "is being deleted, so Drover creates no new servers with it"
	}
	if !d.Spec.Active {
		return "is inactive: set its spec.active to true"
	}
	if driver.IsBuiltin(d) {
		if _, ok := driver.Builtin(d.DriverName()); !ok {
			return "is not built in: set its url and checksum"
		}
		return ""
	}
	if d.Status.Digest != "" {
		return ""
	}
	if ready := meta.FindStatusCondition(d.Status.Conditions, managementv3.ReadyCondition); ready != nil && ready.Message != "" {
		text, _ := advice.Split(ready.Message)
		return "is not ready: " + text
	}
	return "is not ready: it is not downloaded and read yet"
}

// factsOf prefers the verified values to the requested ones if both exist.
func factsOf(d *managementv3.NodeDriver) driverFacts {
	facts := driverFacts{ref: state.DriverRef{Name: d.DriverName()}, template: d.Spec.ProviderIDTemplate, way: d.Annotations[managementv3.UserDataAnnotation]}
	if driver.IsBuiltin(d) {
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

// recallDriver finds the driver for a remove: its NodeDriver if that can be used, otherwise the
// driver that made the server, because a server must be removable after a change of its NodeDriver.
func (r *Reconciler) recallDriver(ctx context.Context, s *scope) error {
	found, err := r.nodeDriver(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case found != nil && (driver.IsBuiltin(found) || found.Status.Digest != ""):
		s.driver = factsOf(found)
	case s.state.Driver != nil:
		s.driver = driverFacts{ref: *s.state.Driver, recorded: true}
	case found != nil:
		s.driver = factsOf(found)
	case s.status.DriverURL != "" && !strings.HasPrefix(s.status.DriverURL, managementv3.BuiltinURLPrefix):
		s.driver = driverFacts{ref: state.DriverRef{Name: r.kind.Driver, URL: s.status.DriverURL, Checksum: s.status.DriverHash}, recorded: true}
	default:
		if _, ok := driver.Builtin(r.kind.Driver); !ok {
			return step.Wait(rkev1.DriverNotFoundReason, fmt.Sprintf("the server cannot be removed without its driver, and its driver is unknown: create NodeDriver %s again, or give up the server with the annotation %s=%s",
				r.kind.Driver, rkev1.AbandonAnnotation, s.GetName()), 0)
		}
		s.driver = driverFacts{ref: state.DriverRef{Name: r.kind.Driver, Builtin: true}}
	}
	// A spec that the driver no longer accepts must not block a removal: the record has all that a
	// remove needs.
	s.driver.values, s.driver.files, err = crdgen.Options(r.kind.Fields, s.Spec())
	if err != nil {
		s.driver.values, s.driver.files = nil, nil
	}
	// The journal records the place of a server whose answer was lost. A failure to place the
	// server must not block its removal.
	_ = r.placeInFailureDomain(s)
	if r.nameInstance(s) != nil {
		s.driver.instanceName = jobrunner.ObjectName(s.GetName())
	}
	return nil
}
