package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// held reports which of a machine's objects hold a move up.
func (s *subject) held() (held []string) {
	s.Helper()
	s.read()
	for _, obj := range []client.Object{s.obj, testkit.ExpectExists(s, s.client, s.stateSecret())} {
		if _, ok := obj.GetAnnotations()["clusterctl.cluster.x-k8s.io/block-move"]; ok {
			held = append(held, obj.GetName())
		}
	}
	return held
}

// A move is held up from before the first Job until the server is there, and while the server is removed, at no further write.
func TestMove_isHeldUpWhileAJobRuns(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	require.Equal(t, []string{"m"}, s.held())
	s.succeed(1)
	s.reconcile()
	s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
	require.Empty(t, s.held())
	require.Equal(t, 2, w.writes["patch *unstructured.Unstructured"], "the finalizer's and the provider ID's")

	before := w.wrote()
	s.delete(s.obj)
	s.reconcile()
	require.Equal(t, []string{"m-machine-state"}, s.held())
	require.LessOrEqual(t, w.wrote()-before, 5)
}

// clusterctl pauses the Cluster before it waits: what runs then is seen to its end, and nothing else begins.
func TestMove_goesOnWhenTheJobOfAPausedMachineHasEnded(t *testing.T) {
	silent := func(operation state.Operation) func(*subject) {
		return func(s *subject) { s.end(operation, 1, batchv1.JobFailed, "BackoffLimitExceeded") }
	}
	for name, tt := range map[string]struct {
		begin, end func(*subject)
		outcome    state.Outcome
	}{
		"made":         {begin: func(s *subject) { s.reconcile() }, end: func(s *subject) { s.succeed(1) }, outcome: state.Succeeded},
		"made-silent":  {begin: func(s *subject) { s.reconcile() }, end: silent(state.Create), outcome: state.Failed},
		"gone":         {begin: func(s *subject) { s.ready(); s.delete(s.obj); s.reconcile() }, end: func(s *subject) { s.removed(1) }, outcome: state.Succeeded},
		"gone-silent":  {begin: func(s *subject) { s.ready(); s.delete(s.obj); s.reconcile() }, end: silent(state.Remove), outcome: state.Failed},
		"gone-refused": {begin: func(s *subject) { s.ready(); s.delete(s.obj); s.reconcile() }, end: func(s *subject) { s.fail(state.Remove, 1, "Unauthorized", "401", true) }, outcome: state.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.machine("digitalocean", "m", droplet())
			tt.begin(s)
			w.pause(true)
			s.reconcile()
			s.reconcile()
			require.Len(t, s.held(), 1, "the Job runs")
			tt.end(s)
			jobs := w.jobs()
			s.reconcile()
			require.Empty(t, s.held())
			require.Equal(t, jobs, w.jobs(), "nothing is begun")
			testkit.ExpectExists(t, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: s.read().JobName}}) // a move has it on its list
			kept := state.Read(testkit.ExpectExists(t, w.client, s.stateSecret()))
			require.Contains(t, []state.Outcome{kept.Result.Value.Outcome, kept.Verdict.Value.Outcome}, tt.outcome, "the Job does not move, the state does")

			wrote := w.wrote()
			s.reconcile()
			require.Equal(t, wrote, w.wrote())
		})
	}
}

func (w *world) jobs() int {
	w.Helper()
	jobs := &batchv1.JobList{}
	require.NoError(w, w.client.List(w.Context(), jobs, client.InNamespace(w.namespace)))
	return len(jobs.Items)
}

// A machine that waits for something holds nothing up when it is paused, and again when it goes on.
func TestMove_isNotHeldUpByAMachineThatWaits(t *testing.T) {
	w := newWorld(t)
	spec := droplet()
	spec["common"] = map[string]any{"cloudCredentialSecretName": "not-there"}
	s := w.machine("digitalocean", "m", spec)
	s.reconcile()
	require.Contains(t, s.obj.GetAnnotations(), rkev1.BlockMoveAnnotation)
	w.pause(true)
	s.reconcile()
	require.NotContains(t, s.obj.GetAnnotations(), rkev1.BlockMoveAnnotation)
	w.pause(false)
	s.reconcile()
	require.Contains(t, s.obj.GetAnnotations(), rkev1.BlockMoveAnnotation)
}

// A move forgets that an object is being deleted. A machine whose server is gone, or half gone, gets no other one.
func TestMove_forgetsADeletion(t *testing.T) {
	for name, end := range map[string]func(*subject){
		"gone":    func(s *subject) { s.removed(1) },
		"refused": func(s *subject) { s.fail(state.Remove, 1, "Transient", "503", true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.machine("digitalocean", "m", droplet())
			s.ready()
			s.delete(s.obj)
			s.reconcile()
			end(s)
			saved := testkit.ExpectExists(t, w.client, s.stateSecret())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			for _, obj := range []client.Object{saved.DeepCopy(), s.obj} {
				require.NoError(t, w.client.Patch(t.Context(), obj, patch))
			}
			w.delete(saved.DeepCopy())
			w.delete(s.job(state.Create, 1))
			w.delete(s.job(state.Remove, 1))
			s.dropJobFinalizers()
			w.delete(s.capi)

			moved := w.machine("digitalocean", "m", droplet())
			saved.ResourceVersion, saved.UID = "", ""
			saved.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(moved.obj, moved.obj.GroupVersionKind())}
			require.NoError(t, w.client.Create(t.Context(), saved))
			moved.reconcile()
			c := moved.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.RemovalBegunReason)
			require.Contains(t, c.Message, "delete the CAPI Machine m again")
			require.NotContains(t, moved.obj.GetAnnotations(), rkev1.BlockMoveAnnotation)
			testkit.ExpectNotFound(t, w.client, moved.job(state.Create, 1))

			moved.delete(moved.obj)
			testkit.ExpectReconciled(t, moved.reconciler, moved.obj)
			if name == "gone" {
				moved.gone()
				return
			}
			w.clock.SetTime(w.clock.Now().Add(10 * 60e9))
			moved.reconcile()
			testkit.ExpectExists(t, w.client, moved.job(state.Remove, 2))
		})
	}
}

// What a machine was made from is there too when the next one is made on the other side. Only what is the user's, and here.
func TestMove_takesTheUsersSecretsAlong(t *testing.T) {
	w := newWorld(t)
	label := func(name string) bool {
		secret := testkit.ExpectExists(t, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
		_, ok := secret.Labels["clusterctl.cluster.x-k8s.io/move"]
		return ok
	}
	s := w.machine("digitalocean", "m", droplet())
	s.reconcile()
	require.False(t, label("cred"), "no server was made with it yet")
	s.succeed(1)
	// As when the write of the status met another's.
	live := testkit.ExpectExists(t, w.client, s.obj.DeepCopy())
	unstructured.RemoveNestedField(live.Object, "status", "cloudCredentialSecretName")
	require.NoError(t, w.client.Status().Update(t.Context(), live))
	s.reconcile()
	require.True(t, label("cred"))
	require.True(t, label("bootstrap"))

	wrote := w.wrote()
	another := w.machine("digitalocean", "another", droplet())
	another.ready()
	cost := w.wrote() - wrote
	third := w.machine("digitalocean", "third", droplet())
	third.ready()
	require.Equal(t, wrote+2*cost, w.wrote(), "nothing is labelled twice")

	owned := w.secret("owned", "Opaque", map[string]string{"value": "#!/bin/sh\n"})
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	w.update(owned)
	of := w.machine("digitalocean", "of", droplet())
	of.capi.Spec.Bootstrap.DataSecretName = new("owned")
	w.update(of.capi)
	of.ready()
	require.False(t, label("owned"), "it goes with its owner")

	elsewhere := newWorld(t)
	shared := elsewhere.secret("shared", "Opaque", map[string]string{"accessToken": "x"})
	shared.Annotations = map[string]string{rkev1.AllowedNamespacesAnnotation: "*"}
	elsewhere.update(shared)
	w.machine("digitalocean", "far", map[string]any{"region": "fra1", "common": map[string]any{
		"cloudCredentialSecretName": strings.Join([]string{elsewhere.namespace, "shared"}, ":")}}).ready()
	require.Empty(t, testkit.ExpectExists(t, w.client, shared).Labels, "it is another namespace's")
}
