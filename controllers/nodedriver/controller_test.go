package nodedriver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

var (
	region = crdgen.Flag{Name: "acme-region", Type: crdgen.String, Usage: "Where"}
	size   = crdgen.Flag{Name: "acme-size", Type: crdgen.Int, Default: int64(2)}
)

// flagsOf are region and size, under the driver's own prefix.
func flagsOf(name string, flags ...crdgen.Flag) []crdgen.Flag {
	out := make([]crdgen.Flag, 0, len(flags))
	for _, flag := range flags {
		flag.Name = name + flag.Name[len("acme"):]
		out = append(out, flag)
	}
	return out
}

func TestBuiltin(t *testing.T) {
	e := newEnv(t, builtin("exoscale"))
	e.reconcileUntilReady()
	e.expect(v3.ValidCondition, metav1.ConditionTrue, v3.ValidReason)
	e.expect(v3.DownloadedCondition, metav1.ConditionTrue, v3.BuiltinReason)
	e.expect(v3.InstalledCondition, metav1.ConditionTrue, v3.BuiltinReason)
	e.expect(v3.ActiveCondition, metav1.ConditionTrue, v3.EstablishedReason)
	require.EqualValues(t, 12, e.nd.Status.Fields)
	require.Equal(t, "ExoscaleMachine", e.nd.Status.MachineKind)
	require.Equal(t, driver.MachineVersion, e.nd.Status.AppliedDockerMachineVersion)
	require.Contains(t, e.machineFields(), "availabilityZone")
	require.Empty(t, e.jobs(), "a built-in driver needs no probe")
	e.machine("works", map[string]any{"availabilityZone": "ch-dk-2"})
	e.reconcile()

	before := e.nd.ResourceVersion
	crd := e.crd(crdgen.ConfigGroup, "ExoscaleConfig").ResourceVersion
	require.Zero(t, e.reconcile())
	require.Equal(t, before, e.nd.ResourceVersion, "nothing changed, nothing is written")
	require.Equal(t, crd, e.crd(crdgen.ConfigGroup, "ExoscaleConfig").ResourceVersion)
}

func TestBuiltin_mendsACRDThatSomebodyChanged(t *testing.T) {
	e := newEnv(t, builtin("rackspace"))
	e.reconcileUntilReady()
	crd := e.crd(crdgen.MachineGroup, "RackspaceMachine")
	crd.Spec.Names.Categories = nil
	require.NoError(t, e.Update(t.Context(), crd))
	e.reconcileUntilReady()
	require.Contains(t, e.crd(crdgen.MachineGroup, "RackspaceMachine").Spec.Names.Categories, "cluster-api")
}

func TestInvalid(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*v3.NodeDriver)
		reason  string
		message string
	}{
		"unknown-builtin": {change: func(nd *v3.NodeDriver) { nd.Spec.URL = "local://" }, reason: v3.UnknownBuiltinReason, message: "digitalocean"},
		"no-host":         {change: func(nd *v3.NodeDriver) { nd.Spec.URL = "https:///x" }, reason: v3.InvalidReason, message: "no host"},
		"bad-alias": {change: func(nd *v3.NodeDriver) {
			nd.Annotations = map[string]string{v3.FileAliasesAnnotation: "x"}
		}, reason: v3.InvalidReason, message: "field:value"},
	} {
		t.Run(name, func(t *testing.T) {
			nd := external(name)
			tt.change(nd)
			e := newEnv(t, nd)
			require.Zero(t, e.reconcile(), "it waits for the spec to change")
			require.Contains(t, e.expect(v3.ValidCondition, metav1.ConditionFalse, tt.reason), tt.message)
			e.expect(v3.ReadyCondition, metav1.ConditionFalse, tt.reason)
			require.Empty(t, e.jobs())
		})
	}
}

func TestNameTaken(t *testing.T) {
	e := newEnv(t, builtin("noop"))
	e.reconcileUntilReady()
	second := builtin("second-noop")
	second.Spec.DisplayName = "noop"
	late := newEnv(t, second)
	late.reconcile()
	require.Contains(t, late.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.NameTakenReason), "NodeDriver noop")

	require.NoError(t, e.Delete(t.Context(), e.nd))
	testkit.ExpectNotFound(t, e.Client, e.nd)
	e.crd(crdgen.MachineGroup, "NoopMachine")
	late.reconcileUntilReady()
}

// The kinds of a NodeDriver that is gone are another one's, if that has the same driver.
func TestDelete_kindsGoToAnHeir(t *testing.T) {
	e := newEnv(t, external("testator"))
	e.reconcile()
	e.succeed("d1", flagsOf("testator", region)...)
	e.reconcileUntilReady()
	heir := external("heir")
	heir.Spec.DisplayName = "testator"
	late := newEnv(t, heir)
	require.NoError(t, e.Delete(t.Context(), e.nd))
	testkit.ExpectReconciled(t, e.reconciler, e.nd)
	require.Zero(t, e.crd(crdgen.MachineGroup, "TestatorMachine").DeletionTimestamp)
	require.NoError(t, late.Delete(t.Context(), late.nd))
	e.reconcile()
	e.expectNoKinds()
}

func TestExternal(t *testing.T) {
	e := newEnv(t, external("acme"))
	e.reconcile()
	e.expect(v3.DownloadedCondition, metav1.ConditionUnknown, v3.ProbingReason)
	e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.ProbingReason)
	job := e.runningJob()
	request := e.request(job)
	require.Equal(t, state.DriverRef{Name: "acme", URL: e.nd.Spec.URL, Checksum: checksum}, request.Driver)
	require.Equal(t, driver.CacheNamespace, request.Namespace)
	require.Equal(t, e.nd.Name, metav1.GetControllerOf(job).Name)
	e.reconcile()
	require.Len(t, e.jobs(), 1, "a running probe is waited for")

	e.succeed("d1", flagsOf("acme", region, size)...)
	e.reconcileUntilReady()
	e.expectNoProbeLeft(job)
	require.Equal(t, "d1", e.nd.Status.Digest)
	require.Equal(t, checksum, e.nd.Status.AppliedChecksum)
	require.EqualValues(t, 2, e.nd.Status.Fields)
	require.Contains(t, e.machineFields(), "region")
	version := e.nd.ResourceVersion
	require.Zero(t, e.reconcile())
	require.Equal(t, version, e.nd.ResourceVersion)
	require.Len(t, e.jobs(), 1, "a resync probes nothing")

	t.Run("annotations count without another probe", func(t *testing.T) {
		e.update(func(nd *v3.NodeDriver) { nd.Annotations = map[string]string{v3.DefaultsAnnotation: "region:ams3"} })
		e.reconcileUntilReady()
		require.Len(t, e.jobs(), 1)
		fields, err := crdgen.FieldsFromCRD(e.crd(crdgen.ConfigGroup, "AcmeConfig"))
		require.NoError(t, err)
		require.Equal(t, "ams3", fields[0].Preset)
	})
	t.Run("another version is probed, and the kinds stay meanwhile", func(t *testing.T) {
		e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "2" })
		e.reconcile()
		e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.ProbingReason)
		e.expect(v3.ActiveCondition, metav1.ConditionTrue, v3.EstablishedReason)
		require.Equal(t, "d1", e.nd.Status.Digest, "machines are made with the old one until the new one is known")
		require.EqualValues(t, 2, e.request(e.runningJob()).Attempt)
		third := crdgen.Flag{Name: "acme-zone", Type: crdgen.String}
		e.succeed("d2", region, size, third)
		e.reconcileUntilReady()
		require.Equal(t, "d2", e.nd.Status.Digest)
		require.Equal(t, "2", e.nd.Status.AppliedVersion)
		require.Contains(t, e.machineFields(), "zone")
	})
	t.Run("a change while a probe runs replaces it", func(t *testing.T) {
		e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "3" })
		e.reconcile()
		stale := e.runningJob()
		e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "4" })
		e.reconcile()
		require.NotEqual(t, stale.Name, e.runningJob().Name)
		e.expectNoProbeLeft(stale)
	})
}

func TestExternal_weakChecksum(t *testing.T) {
	nd := external("weak")
	nd.Spec.Checksum = "d41d8cd98f00b204e9800998ecf8427e"
	e := newEnv(t, nd)
	e.reconcile()
	require.Contains(t, e.expect(v3.ValidCondition, metav1.ConditionTrue, v3.WeakChecksumReason), "md5")
	e.runningJob()
}

func TestExternal_failures(t *testing.T) {
	t.Run("what does not pass by itself is not tried again until asked", func(t *testing.T) {
		e := newEnv(t, external("wrongsum"))
		e.reconcile()
		e.finish(state.Result{Outcome: state.Failed, Reason: v3.ChecksumMismatchReason, Class: rkev1.ClassInvalid, Message: "its sha256 is abc"})
		require.Zero(t, e.reconcile())
		message := e.expect(v3.DownloadedCondition, metav1.ConditionFalse, v3.ChecksumMismatchReason)
		require.Contains(t, message, "its sha256 is abc")
		require.Contains(t, message, rkev1.RetryAnnotation)
		e.now = e.now.Add(24 * time.Hour)
		require.Zero(t, e.reconcile())
		require.Len(t, e.jobs(), 1)

		e.update(func(nd *v3.NodeDriver) { nd.Annotations = map[string]string{rkev1.RetryAnnotation: "1"} })
		e.reconcile()
		e.runningJob()
	})
	t.Run("what may pass is tried again later", func(t *testing.T) {
		e := newEnv(t, external("unreachable"))
		e.reconcile()
		e.finish(state.Result{Outcome: state.Failed, Reason: v3.DownloadFailedReason, Class: rkev1.ClassTransient, Message: "connection refused"})
		result := e.reconcile()
		require.Positive(t, result.RequeueAfter)
		require.Contains(t, e.expect(v3.DownloadedCondition, metav1.ConditionFalse, v3.DownloadFailedReason), "connection refused")
		require.EqualValues(t, 1, e.nd.Status.ProbeAttempts)
		require.NotNil(t, e.nd.Status.LastProbeTime)

		e.now = e.now.Add(result.RequeueAfter)
		e.reconcile()
		require.EqualValues(t, 2, e.request(e.runningJob()).Attempt)
		require.EqualValues(t, 2, e.nd.Status.ProbeAttempts)
	})
}

func TestSchemaChange(t *testing.T) {
	e := newEnv(t, external("shrink"))
	e.reconcile()
	e.succeed("d1", flagsOf("shrink", region, size)...)
	e.reconcileUntilReady()
	user := e.machine("uses-size", map[string]any{"size": int64(4)})
	e.machine("uses-region", map[string]any{"region": "ams3"})
	config := e.config("ShrinkConfig", map[string]any{"region": "ams3"})
	require.Equal(t, int64(2), config.Object["size"], "the API server writes the default in")

	e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "2" })
	e.reconcile()
	e.succeed("d2", flagsOf("shrink", region)...)
	e.reconcile()
	message := e.expect(v3.SchemaCompatibleCondition, metav1.ConditionFalse, v3.SchemaIncompatibleReason)
	for _, part := range []string{"driver shrink", "size", "ShrinkMachine default/uses-size"} {
		require.Contains(t, message, part)
	}
	require.NotContains(t, message, "uses-region")
	require.NotContains(t, message, "ShrinkConfig")
	e.expect(v3.ActiveCondition, metav1.ConditionTrue, v3.EstablishedReason)
	require.Contains(t, e.machineFields(), "size", "the old kinds stay")
	require.Equal(t, "d1", e.nd.Status.Digest)

	require.NoError(t, e.Delete(t.Context(), user))
	e.reconcileUntilReady()
	require.NotContains(t, e.machineFields(), "size")
	require.Equal(t, "d2", e.nd.Status.Digest)

	// One that gives a value of its own counts, and so does what the default was before.
	config.Object["region"] = "fra1"
	require.NoError(t, e.Update(t.Context(), config))
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "3" })
	e.reconcile()
	e.succeed("d3", flagsOf("shrink", size)...)
	e.reconcile()
	require.Contains(t, e.expect(v3.SchemaCompatibleCondition, metav1.ConditionFalse, v3.SchemaIncompatibleReason), "ShrinkConfig default/written-by-somebody")
}

// A default that nobody gave does not hold up a flag that changes its type, and the config can be written after that.
func TestSchemaChange_retypedDefault(t *testing.T) {
	e := newEnv(t, external("retype"))
	e.reconcile()
	e.succeed("d1", flagsOf("retype", region, size)...)
	e.reconcileUntilReady()
	config := e.config("RetypeConfig", map[string]any{"region": "ams3"})
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "2" })
	e.reconcile()
	e.succeed("d2", flagsOf("retype", region, crdgen.Flag{Name: "acme-size", Type: crdgen.String, Default: "two"})...)
	e.reconcileUntilReady()
	testkit.Eventually(t, patience, func() error {
		if e.machineFields()["size"].Type != "string" {
			return errors.New("the old type")
		}
		testkit.ExpectExists(t, e.Client, config)
		config.Object["region"] = "fra1"
		return e.Update(t.Context(), config)
	})
	config.Object["size"] = "large"
	require.NoError(t, e.Update(t.Context(), config))
}

func TestDeactivate(t *testing.T) {
	e := newEnv(t, builtin("softlayer"))
	e.reconcileUntilReady()
	machine := e.machine("kept", map[string]any{"domain": "example.org"})
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = false })
	e.reconcile()
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.KeptForMachinesReason), "SoftlayerMachine default/kept")
	e.expect(v3.ActiveCondition, metav1.ConditionTrue, v3.KeptForMachinesReason)
	e.crd(crdgen.MachineGroup, "SoftlayerMachine")

	owner := e.capiMachine("kept")
	require.NoError(t, e.Delete(t.Context(), machine))
	e.reconcile()
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.KeptForMachinesReason), "1 object uses them (CAPI Machine default/kept)")
	e.crd(crdgen.MachineGroup, "SoftlayerMachine")

	require.NoError(t, e.Delete(t.Context(), owner))
	e.reconcile()
	e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.InactiveReason)
	require.Empty(t, e.nd.Status.MachineKind)
	e.expectNoKinds()

	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = true })
	e.reconcileUntilReady()
}

func TestDelete(t *testing.T) {
	e := newEnv(t, external("doomed"))
	e.reconcile()
	e.succeed("d1", flagsOf("doomed", region)...)
	e.reconcileUntilReady()
	part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: "driver-d1-0",
		Labels: map[string]string{rkev1.NodeDriverLabel: "doomed"}}}
	require.NoError(t, e.Create(t.Context(), part))
	machine, owner := e.machine("left", map[string]any{"region": "x"}), e.capiMachine("left")
	e.reconcile()
	require.NoError(t, e.Delete(t.Context(), machine))
	e.reconcile()

	require.NoError(t, e.Delete(t.Context(), e.nd))
	require.Positive(t, e.reconcile().RequeueAfter)
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.DeletionBlockedReason), "1 object uses them (CAPI Machine default/left)")
	e.crd(crdgen.MachineGroup, "DoomedMachine")

	machine = e.machine("left", map[string]any{"region": "x"})
	require.NoError(t, e.Delete(t.Context(), owner))
	e.reconcile()
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.DeletionBlockedReason), "DoomedMachine default/left")
	e.crd(crdgen.MachineGroup, "DoomedMachine")
	testkit.ExpectExists(t, e.Client, part)

	require.NoError(t, e.Delete(t.Context(), machine))
	// A kind whose CRD something else holds.
	held := e.crd(crdgen.MachineGroup, "DoomedMachine")
	controllerutil.AddFinalizer(held, "test.example.com/held")
	require.NoError(t, e.Update(t.Context(), held))
	e.reconcile()
	require.Contains(t, e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.RemovingKindsReason), "DoomedMachine")
	testkit.ExpectExists(t, e.Client, part)
	testkit.Eventually(t, patience, func() error {
		held := e.crd(crdgen.MachineGroup, "DoomedMachine")
		controllerutil.RemoveFinalizer(held, "test.example.com/held")
		return e.Update(t.Context(), held)
	})
	e.expectNoKinds()
	e.reconcile()
	testkit.ExpectNotFound(t, e.Client, e.nd, part)
}

// Who takes Drover away takes the manager first: a NodeDriver without machines must go without it, whatever its state, and also one that an
// earlier version gave the finalizer. What somebody wrote stays, and its kinds with it, until the manager sees it go.
func TestDelete_noMachinesNoFinalizer(t *testing.T) {
	nd := external("unheld")
	nd.Finalizers = []string{rkev1.NodeDriverFinalizer}
	e := newEnv(t, nd)
	e.reconcile()
	require.Empty(t, e.nd.Finalizers, "while it is probed")
	e.succeed("d1", flagsOf("unheld", region)...)
	e.reconcileUntilReady()
	config := e.config("UnheldConfig", map[string]any{"region": "x"})
	machine := e.machine("holds", map[string]any{"region": "x"})
	e.reconcile()
	require.NotEmpty(t, e.nd.Finalizers)
	require.NoError(t, e.Delete(t.Context(), machine))
	e.reconcile()
	require.Empty(t, e.nd.Finalizers)

	require.NoError(t, e.Delete(t.Context(), e.nd))
	testkit.ExpectNotFound(t, e.Client, e.nd.DeepCopy())
	e.reconcile()
	e.crd(crdgen.ConfigGroup, "UnheldConfig")
	owner := e.capiMachine("late")
	require.NoError(t, e.Delete(t.Context(), config))
	require.Positive(t, e.reconcile().RequeueAfter, "nothing else tells when a Machine goes whose NodeDriver is gone")
	e.crd(crdgen.ConfigGroup, "UnheldConfig")
	require.NoError(t, e.Delete(t.Context(), owner))
	e.reconcile()
	e.expectNoKinds()
}

// expectNoKinds waits for the API server to take the CRDs away.
func (e *env) expectNoKinds() {
	e.t.Helper()
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	kinds := crdgen.KindsOf(e.nd.DriverName())
	names := []string{crdgen.CRDName(crdgen.MachineGroup, kinds.Machine), crdgen.CRDName(crdgen.MachineGroup, kinds.MachineTemplate), crdgen.CRDName(crdgen.ConfigGroup, kinds.Config)}
	testkit.Eventually(e.t, patience, func() error {
		for _, name := range names {
			if err := e.Get(e.t.Context(), client.ObjectKey{Name: name}, crd); !apierrors.IsNotFound(err) {
				return errors.New(name + " is still there")
			}
		}
		return nil
	})
}
