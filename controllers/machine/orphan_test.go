package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/testkit"
)

// orphanCredential makes a machine and takes all of it away but its credential, which the garbage collector has deleted.
func (w *world) orphanCredential(kind string) (*subject, *corev1.Secret) {
	w.Helper()
	s := w.machine("digitalocean", "m", droplet())
	s.ready()
	for _, obj := range []client.Object{s.obj, s.stateSecret()} {
		require.NoError(w, w.client.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.delete(obj)
	}
	credential := testkit.ExpectExists(w, w.client, s.lastCredential())
	credential.OwnerReferences[0].Kind = kind
	w.update(credential)
	w.delete(credential)
	return s, testkit.ExpectExists(w, w.client, credential)
}

// What was being deleted before its namespace was tells nobody of that, and a manager that starts sees it before it knows of any kind of
// machine; the kind's CRD may be gone for good.
func TestOrphan_goesWithItsNamespaceAfterARestart(t *testing.T) {
	for name, kind := range map[string]string{"a kind": "DigitaloceanMachine", "a kind that is gone": "GoneMachine"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, credential := w.orphanCredential(kind)
			controller := w.manager()
			orphan := machine.Request{Kind: rkev1.MachineGroupVersion.WithKind(kind), NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: "m"}}
			result, err := controller.Reconcile(t.Context(), orphan)
			require.NoError(t, err)
			require.Equal(t, time.Minute, result.RequeueAfter, "the end of a namespace wakes nobody")
			testkit.ExpectExists(t, w.client, credential)

			w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
			w.startManager(nil)
			w.awaitGone(&corev1.SecretList{}, credential)
		})
	}
}

// A kind that is not known yet is no reason to let go what a machine that is there needs.
func TestOrphan_isNoneWhileItsMachineIsThere(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.ready()
	w.delete(s.lastCredential())
	w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	result, err := w.manager().Reconcile(t.Context(), machine.Request{Kind: s.kind.GVK, NamespacedName: client.ObjectKeyFromObject(s.obj)})
	require.NoError(t, err)
	require.Zero(t, result)
	testkit.ExpectExists(t, w.client, s.lastCredential())
}

// A restore may bring a credential before its state and machine. When neither came, it is of no use to anybody.
func TestOrphan_credentialWithoutAStateGoes(t *testing.T) {
	w := newWorld(t)
	s, credential := w.orphanCredential("DigitaloceanMachine")
	w.clock.SetTime(credential.DeletionTimestamp.Add(59 * time.Minute))
	w.events()
	require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
	testkit.ExpectExists(t, w.client, credential)
	require.Contains(t, strings.Join(w.events(), "\n"), "WaitingForOwner there is neither a DigitaloceanMachine m nor its state")

	kept := &corev1.Secret{ObjectMeta: s.stateSecret().ObjectMeta, Type: rkev1.MachineStateSecretType}
	kept.Labels = credential.Labels
	testkit.ExpectApplied(t, w.client, kept)
	w.clock.SetTime(credential.DeletionTimestamp.Add(2 * time.Hour))
	testkit.ExpectReconciled(t, s.reconciler, s.obj)
	testkit.ExpectExists(t, w.client, credential)
	w.delete(kept)
	testkit.ExpectReconciled(t, s.reconciler, s.obj)
	testkit.ExpectNotFound(t, w.client, credential)
}
