package nodedriver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

func predefined(t *testing.T, name string) *v3.NodeDriver {
	t.Helper()
	for _, nd := range driver.Predefined() {
		if nd.Name == name {
			return &nd
		}
	}
	require.Fail(t, "no predefined driver", name)
	return nil
}

// deleted has the user delete the NodeDriver, and the controller hear of its end.
func (e *env) deleted() {
	e.t.Helper()
	require.NoError(e.t, e.Delete(e.t.Context(), e.nd))
	if len(e.nd.Finalizers) > 0 {
		e.reconcile()
	}
	testkit.ExpectNotFound(e.t, e.Client, e.nd.DeepCopy())
	testkit.ExpectReconciled(e.t, e.reconciler, e.nd)
}

func TestPredefined_comeBackInactive(t *testing.T) {
	for _, name := range []string{"linode", "packet", "virtualbox", "openstack"} {
		t.Run(name, func(t *testing.T) {
			nd := predefined(t, name)
			nd.Spec.Description = "what a user made of it"
			e := newEnv(t, nd)
			e.reconcile()
			before := e.nd.UID
			e.deleted()

			back := testkit.ExpectExists(t, e.Client, &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
			want := predefined(t, name)
			want.Spec.Active = false
			require.NotEqual(t, before, back.UID)
			require.Equal(t, want.Spec, back.Spec, "as it was brought along")
			for key, value := range want.Annotations {
				require.Equal(t, value, back.Annotations[key], key)
			}
			e.reconcile()
			e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.InactiveReason)
			require.Empty(t, e.jobs(), "nothing is downloaded")
		})
	}
}

// One that was active and is deleted past our webhook comes back at once, and its kinds stay as long as they are used: no finalizer of
// ours holds up who takes away all that is Drover's, manager included.
func TestPredefined_noFinalizer(t *testing.T) {
	nd := predefined(t, "vmwarevsphere")
	nd.Finalizers = []string{rkev1.NodeDriverFinalizer} // of an earlier version
	e := newEnv(t, nd)
	require.True(t, nd.Spec.Active)
	e.reconcileUntilReady()
	require.Empty(t, e.nd.Finalizers)
	machine := e.machine("kept", map[string]any{})
	require.NoError(t, e.Delete(t.Context(), e.nd))
	testkit.ExpectNotFound(t, e.Client, e.nd.DeepCopy())
	testkit.ExpectReconciled(t, e.reconciler, e.nd)
	e.reconcile()
	require.False(t, e.nd.Spec.Active)
	e.expect(v3.ReadyCondition, metav1.ConditionFalse, v3.KeptForMachinesReason)
	e.crd(crdgen.MachineGroup, "VmwarevsphereMachine")
	require.NoError(t, e.Delete(t.Context(), machine))
	e.reconcile()
	e.expectNoKinds()

	e.update(func(nd *v3.NodeDriver) { nd.Spec.Active = true })
	e.reconcileUntilReady()
	e.crd(crdgen.MachineGroup, "VmwarevsphereMachine")
}

func TestPredefined_othersStayAway(t *testing.T) {
	e := newEnv(t, external("mine"))
	e.reconcile()
	e.deleted()
	testkit.ExpectNotFound(t, e.Client, e.nd.DeepCopy())
}

// Somebody may be quicker, the manager's own start for instance.
func TestPredefined_whatIsThereStays(t *testing.T) {
	nd := predefined(t, "cloudca")
	e := newEnv(t, nd)
	e.reconcile()
	require.NoError(t, e.Delete(t.Context(), e.nd))
	again := predefined(t, "cloudca")
	again.Spec.Description = "made by somebody else"
	require.NoError(t, e.Create(t.Context(), again))
	testkit.ExpectReconciled(t, e.reconciler, e.nd)
	there := testkit.ExpectExists(t, e.Client, &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "cloudca"}})
	require.Equal(t, "made by somebody else", there.Spec.Description)
	require.NoError(t, e.Get(t.Context(), client.ObjectKeyFromObject(there), e.nd))
}
