package nodedriver_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// store puts a binary of three parts into the cache.
func (e *env) store(name, digest string) []client.Object {
	e.t.Helper()
	var parts []client.Object
	for i := range 3 {
		part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: driver.CacheNamespace, Name: driver.CachePartName(digest, i),
			Labels: map[string]string{rkev1.NodeDriverLabel: name, driver.CacheDigestLabel: driver.CacheLabel(digest), driver.CachePartsLabel: "3"}}}
		require.NoError(e.t, e.Create(e.t.Context(), part))
		parts = append(parts, part)
	}
	return parts
}

// serverOf makes the state of a server that was made with a binary.
func (e *env) serverOf(name, digest string) *corev1.Secret {
	e.t.Helper()
	secret, err := jobrunner.StateSecret(jobrunner.Task{Request: jobrunner.Request{Operation: state.Create, Attempt: 1,
		Machine: jobrunner.MachineRef{Namespace: "default", Name: name + "-server", UID: "uid"}, Driver: state.DriverRef{Name: name, Digest: digest},
		Namespace: "default", StateSecret: name + "-server-machine-state"}})
	require.NoError(e.t, err)
	secret.Finalizers = nil
	require.NoError(e.t, e.Create(e.t.Context(), secret))
	return secret
}

// prune lets the pruner look, when everything is old.
func (e *env) prune() reconcile.Result {
	e.t.Helper()
	e.now = time.Now().Add(2 * time.Hour)
	result, err := e.reconciler.Prune(e.t.Context(), reconcile.Request{})
	require.NoError(e.t, err)
	return result
}

func (e *env) expectAll(objs []client.Object) {
	e.t.Helper()
	for _, obj := range objs {
		testkit.ExpectExists(e.t, e.Client, obj)
	}
}

func digestOf(letter string) string { return strings.Repeat(letter, 64) }

// established makes an external driver whose binary is cached.
func established(t *testing.T, name, digest string) (*env, []client.Object) {
	t.Helper()
	e := newEnv(t, external(name))
	e.reconcile()
	e.succeed(digest, flagsOf(name, region)...)
	e.reconcileUntilReady()
	return e, e.store(name, digest)
}

// replace has the NodeDriver get another binary.
func (e *env) replace(digest string) []client.Object {
	e.t.Helper()
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Version += "+" })
	e.reconcile()
	parts := e.store(e.nd.DriverName(), digest)
	e.succeed(digest, flagsOf(e.nd.DriverName(), region)...)
	e.reconcileUntilReady()
	return parts
}

func TestPrune_binariesThatNothingUses(t *testing.T) {
	e, first := established(t, "prunea", digestOf("a"))
	second := e.replace(digestOf("b"))
	server := e.serverOf("prunea", digestOf("a"))

	require.Positive(t, e.prune().RequeueAfter, "the old one is kept for the server that was made with it")
	e.expectAll(first)
	e.expectAll(second)

	require.NoError(t, e.Delete(t.Context(), server))
	e.prune()
	testkit.ExpectNotFound(t, e.Client, first...)
	e.expectAll(second)

	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = false })
	e.reconcile()
	e.prune()
	e.expectAll(second)
	require.Equal(t, digestOf("b"), e.nd.Status.Digest, "inactive, but read: active again, it needs no other probe")
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = true })
	e.reconcileUntilReady()
	require.Len(t, e.jobs(), 2)
}

func TestPrune_whatIsYoungStays(t *testing.T) {
	e, first := established(t, "pruney", digestOf("c"))
	e.replace(digestOf("d"))
	e.now = time.Now()
	result, err := e.reconciler.Prune(t.Context(), reconcile.Request{})
	require.NoError(t, err)
	require.Equal(t, time.Hour, result.RequeueAfter)
	e.expectAll(first)
	e.prune()
	testkit.ExpectNotFound(t, e.Client, first...)
}

func TestPrune_whileADriverIsProbed(t *testing.T) {
	e, first := established(t, "prunep", digestOf("e"))
	e.update(func(nd *v3.NodeDriver) { nd.Spec.Version = "2" })
	e.reconcile()
	fresh := e.store("prunep", digestOf("f"))
	require.Positive(t, e.prune().RequeueAfter)
	e.expectAll(first)
	e.expectAll(fresh)

	// The new one does not fit: until somebody decides, both are kept.
	user := e.machine("prunep-user", map[string]any{"region": "x"})
	e.succeed(digestOf("f"), crdgen.Flag{Name: "prunep-zone", Type: crdgen.String})
	e.reconcile()
	e.expect(v3.SchemaCompatibleCondition, metav1.ConditionFalse, v3.SchemaIncompatibleReason)
	e.prune()
	e.expectAll(fresh)
	require.NoError(t, e.Delete(t.Context(), user))
	e.reconcileUntilReady()
	e.prune()
	e.expectAll(fresh)
	testkit.ExpectNotFound(t, e.Client, first...)
}

func TestPrune_halfABinary(t *testing.T) {
	e, _ := established(t, "pruneh", digestOf("1"))
	half := e.store("pruneh", digestOf("2"))
	require.NoError(t, e.Delete(t.Context(), half[0]), "an earlier look was interrupted")
	e.prune()
	testkit.ExpectNotFound(t, e.Client, half...)
}

func TestPrune_binaryOfANodeDriverThatWasForcedAway(t *testing.T) {
	e, parts := established(t, "prunef", digestOf("3"))
	e.forceAway()
	e.prune()
	testkit.ExpectNotFound(t, e.Client, parts...)
	e.expectNoKinds()
}

// forceAway takes the NodeDriver away past its finalizer, as some do who do not want to wait.
func (e *env) forceAway() {
	e.t.Helper()
	e.update(func(nd *v3.NodeDriver) { nd.Finalizers = nil })
	require.NoError(e.t, e.Delete(e.t.Context(), e.nd))
	testkit.ExpectNotFound(e.t, e.Client, e.nd.DeepCopy())
}

func TestPrune_kindsStayWhileThereIsAnObject(t *testing.T) {
	e, _ := established(t, "prunek", digestOf("4"))
	machine := e.machine("kept", map[string]any{"region": "x"})
	e.forceAway()
	require.Positive(t, e.prune().RequeueAfter)
	e.crd(crdgen.MachineGroup, "PrunekMachine")
	e.crd(crdgen.ConfigGroup, "PrunekConfig")
	require.NoError(t, e.Delete(t.Context(), machine))

	config := e.config("PrunekConfig", map[string]any{"region": "x"})
	e.prune()
	e.crd(crdgen.ConfigGroup, "PrunekConfig")
	require.NoError(t, e.Delete(t.Context(), config))
	e.prune()
	e.expectNoKinds()
}

func TestPrune_kindsOfTheNameBefore(t *testing.T) {
	e, _ := established(t, "prunen", digestOf("5"))
	e.update(func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "prunenew" })
	e.reconcile()
	e.prune()
	e.crd(crdgen.MachineGroup, "PrunenMachine")
	e.succeed(digestOf("6"), flagsOf("prunenew", region)...)
	e.reconcileUntilReady()
	require.Equal(t, "PrunenewMachine", e.nd.Status.MachineKind)
	e.prune()
	e.crd(crdgen.MachineGroup, "PrunenewMachine")
	gone := &metav1.PartialObjectMetadata{}
	gone.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	testkit.Eventually(t, patience, func() error {
		if !apierrors.IsNotFound(e.Get(t.Context(), client.ObjectKey{Name: crdgen.CRDName(crdgen.MachineGroup, "PrunenMachine")}, gone)) {
			return errors.New("the kind of the old name is still there")
		}
		return nil
	})
}

// A CRD that has our label and is not ours is left alone.
func TestPrune_kindsOfOthersStay(t *testing.T) {
	e := newEnv(t, builtin("none"))
	e.reconcileUntilReady()
	crd := e.crd(crdgen.MachineGroup, "NoneMachine").DeepCopy()
	crd.ObjectMeta = metav1.ObjectMeta{Name: "others.rke-machine.cattle.io", Labels: map[string]string{rkev1.NodeDriverLabel: "other"}}
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "others", Kind: "Other"}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	require.NoError(t, e.Create(t.Context(), crd))
	e.prune()
	testkit.ExpectExists(t, e.Client, crd)
	e.crd(crdgen.MachineGroup, "NoneMachine")
}
