package machine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// backup is what `kubectl get -o yaml` says of a ready machine's Secrets; the machine, its Job and they are then lost.
func (s *subject) backup() []*corev1.Secret {
	s.Helper()
	s.ready()
	saved := []*corev1.Secret{testkit.ExpectExists(s, s.client, s.stateSecret()), testkit.ExpectExists(s, s.client, s.lastCredential())}
	for _, secret := range saved {
		secret.ManagedFields = nil
	}
	s.delete(s.job(state.Create, 1))
	s.dropJobFinalizers()
	for _, obj := range []client.Object{s.stateSecret(), s.lastCredential(), s.obj} {
		require.NoError(s, s.client.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		s.delete(obj)
	}
	s.delete(s.capi)
	return saved
}

// apply brings the Secrets back. The garbage collector deletes what has an owner that is not there, as it does at once.
func (s *subject) apply(saved []*corev1.Secret, owners, collected bool) {
	s.Helper()
	for _, secret := range saved {
		secret.ResourceVersion, secret.UID = "", ""
		if !owners {
			secret.OwnerReferences = nil
		}
		require.NoError(s, s.client.Create(s.Context(), secret.DeepCopy()))
		if collected {
			s.delete(secret)
		}
	}
}

// Whatever of a raw backup comes back first and with which owners: the machine takes its state over, a Job looks for the server by
// the tag that it has, and nothing is said of the server before.
func TestRestore(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct{ owners, collected, machineFirst bool }{
		"as-kubectl-applies":       {owners: true},
		"collected-meanwhile":      {owners: true, collected: true},
		"as-velero-restores":       {},
		"after-its-machine":        {owners: true, collected: true, machineFirst: true},
		"after-its-machine-velero": {machineFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.machine("digitalocean", name, droplet())
			tagged := string(s.obj.GetUID())
			saved := s.backup()
			var again *subject
			if tt.machineFirst {
				again = w.machine("digitalocean", name, droplet())
				again.capi.Spec.ProviderID = "digitalocean://123"
				w.update(again.capi)
				again.reconcile()
				again.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.StateMissingReason)
			}
			s.apply(saved, tt.owners, tt.collected)
			if !tt.machineFirst {
				w.events()
				testkit.ExpectReconciled(t, s.reconciler, s.obj) // the Secrets wake a machine that is not there
				require.Contains(t, strings.Join(w.events(), "\n"), "WaitingForOwner DigitaloceanMachine "+name+" does not exist, and this state Secret records its server")
				again = w.machine("digitalocean", name, droplet())
			}
			w.events()
			require.Equal(t, rkev1.PhaseCreating, again.reconcile().Phase)
			require.Empty(t, w.events(), "of what nobody looked at nothing is told")
			request := again.requestOf(state.Create, 2)
			require.Equal(t, tagged, request.Tags[jobrunner.TagMachineUID])
			kept := testkit.ExpectExists(t, w.client, again.stateSecret())
			require.True(t, metav1.IsControlledBy(kept, again.obj))
			require.Len(t, kept.OwnerReferences, 1)
			require.Equal(t, []string{rkev1.MachineFinalizer}, kept.Finalizers)
			require.Equal(t, "a tar.gz", string(kept.Data[state.ExtractedConfigKey]))
			require.True(t, metav1.IsControlledBy(testkit.ExpectExists(t, w.client, again.lastCredential()), again.obj))

			again.succeed(2)
			again.reconcile()
			again.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
			again.delete(again.obj)
			again.reconcile()
			require.Equal(t, tagged, again.requestOf(state.Remove, 1).Tags[jobrunner.TagMachineUID])
		})
	}
}

// While it is not decided what becomes of a restored machine, no server is made in its place; one that has a server goes on.
func TestRestore_noOtherServer(t *testing.T) {
	w := newWorld(t)
	there := w.machine("digitalocean", "there", droplet())
	there.ready()
	s := w.machine("digitalocean", "m", droplet())
	s.apply(s.backup(), true, true)
	restored := w.machine("digitalocean", "m", droplet())
	owners := restored.obj.GetOwnerReferences()
	owners[0].UID = "of-the-backup"
	restored.obj.SetOwnerReferences(owners)
	restored.obj.SetFinalizers([]string{rkev1.MachineFinalizer})
	w.update(restored.obj)
	w.delete(restored.capi)
	w.delete(restored.obj)
	restored.reconcile()
	c := restored.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.OwnerUnknownReason)
	require.Contains(t, c.Message, "To keep the server, restore again")

	other := w.machine("digitalocean", "other", droplet())
	other.reconciler = restored.reconciler // of one manager
	other.reconcile()
	c = other.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason)
	require.Contains(t, c.Message, "machine m of this Cluster was restored from a backup")
	there.reconcile()
	there.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")

	restored.annotate(rkev1.RemoveRestoredAnnotation, "m")
	restored.reconcile()
	require.Equal(t, rkev1.PhaseCreating, other.reconcile().Phase)
}

// A backup of while a server was made brings the Job back, too. Its pod does nothing, for its state Secret has another UID (jobrunner/operation
// TestAnotherState); it is taken away, and a Job of the machine's own looks for the server.
func TestRestore_withItsJob(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "early", droplet())
	s.reconcile()
	saved := testkit.ExpectExists(t, w.client, s.stateSecret())
	require.Equal(t, saved.UID, s.requestOf(state.Create, 1).StateUID)
	restored := testkit.ExpectExists(t, w.client, s.job(state.Create, 1)).DeepCopy()
	w.delete(s.job(state.Create, 1))
	s.dropJobFinalizers()
	for _, obj := range []client.Object{s.stateSecret(), s.obj} {
		require.NoError(t, w.client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		w.delete(obj)
	}
	w.delete(s.capi)
	saved.ResourceVersion, saved.UID, saved.OwnerReferences, saved.ManagedFields = "", "", nil, nil
	require.NoError(t, w.client.Create(t.Context(), saved))
	job := func(name string) *batchv1.Job {
		made := restored.DeepCopy()
		made.ObjectMeta, made.Spec.Selector = metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: restored.Labels}, nil
		made.Spec.Template.Labels = map[string]string{rkev1.MachineUIDLabel: restored.Labels[rkev1.MachineUIDLabel]}
		require.NoError(t, w.client.Create(t.Context(), made))
		return made
	}
	job(restored.Name)
	unneeded := job("early-create-7") // whose name no attempt of the new machine has

	again := w.machine("digitalocean", "early", droplet())
	require.Equal(t, rkev1.PhaseCreating, again.reconcile().Phase)
	require.True(t, metav1.IsControlledBy(testkit.ExpectExists(t, w.client, again.job(state.Create, 1)), again.obj))
	require.Equal(t, testkit.ExpectExists(t, w.client, again.stateSecret()).UID, again.requestOf(state.Create, 1).StateUID)
	testkit.ExpectNotFound(t, w.client, unneeded)

	job("stateless-create-1")
	stateless := w.machine("digitalocean", "stateless", droplet())
	stateless.reconcile()
	stateless.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Equal(t, rkev1.PhaseCreating, stateless.reconcile().Phase)
}

// A state whose server is gone is nobody's to take over, and nobody is told to delete the only record of a server.
func TestRestore_whatIsNotTakenOver(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	saved := s.backup()
	released := saved[0].DeepCopy()
	released.Finalizers = nil
	s.apply([]*corev1.Secret{released}, true, false)
	again := w.machine("digitalocean", "m", droplet())
	again.reconcile()
	c := again.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Contains(t, c.Message, "wait until the garbage collector deletes it")
	w.delete(released)

	another := saved[0].DeepCopy()
	another.OwnerReferences[0].Kind, another.OwnerReferences[0].UID = "LinodeMachine", "another"
	s.apply([]*corev1.Secret{another}, true, false)
	again.reconcile()
	c = again.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Contains(t, c.Message, "belongs to LinodeMachine m (UID another): use another name, or delete that machine. Keep the Secret")
}

// A later backup that is put in place of an earlier one's state, which does not know the server, keeps the server.
func TestRestore_laterState(t *testing.T) {
	w := newWorld(t)
	s := w.machine("digitalocean", "m", droplet())
	saved := s.backup()
	early := saved[0].DeepCopy()
	early.Data = map[string][]byte{state.JournalKey: []byte(`{"operation":"create","attempt":1,"phase":"Intent","instanceName":"m"}`)}
	s.apply([]*corev1.Secret{early}, false, false)
	again := w.machine("digitalocean", "m", droplet())
	again.reconcile()
	again.doubts(1, "server 1 exists, and the state Secret, which was restored from a backup, records that it was never completed")
	again.reconcile()
	message := again.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason).Message
	require.Contains(t, message, "without metadata.ownerReferences, uid and resourceVersion: kubectl -n "+s.obj.GetNamespace()+" replace -f m-machine-state.yaml")

	later := saved[0].DeepCopy()
	later.OwnerReferences, later.UID, later.ResourceVersion = nil, "", ""
	require.NoError(t, w.client.Update(t.Context(), later))
	again.reconcile()
	require.Equal(t, string(s.obj.GetUID()), again.requestOf(state.Create, 2).Tags[jobrunner.TagMachineUID])
	again.succeed(2)
	again.reconcile()
	again.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
}

// A state that names the tag of a machine that is there is believed neither in making nor in removing. A Secret that only says so of a
// machine that is not there, or of no machine, keeps no restored machine from its server.
func TestRestore_tagOfAnother(t *testing.T) {
	w := newWorld(t)
	victim := w.machine("digitalocean", "victim", droplet())
	victim.ready()
	s := w.machine("digitalocean", "m", droplet())
	s.ready()
	tag := func(uid string) {
		secret := testkit.ExpectExists(t, w.client, s.stateSecret())
		secret.Annotations[rkev1.TaggedUIDAnnotation] = uid
		require.NoError(t, w.client.Update(t.Context(), secret))
	}
	tag(string(victim.obj.GetUID()))
	s.reconcile()
	c := s.expect(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	require.Contains(t, c.Message, "to this machine's UID, "+string(s.obj.GetUID()))
	require.Contains(t, c.Message, "the machine victim in namespace "+victim.obj.GetNamespace()+" has this UID", "drover get finds it")
	require.Contains(t, c.Message, "docs/dataflow.md#a-copy-of-a-live-namespace")
	require.NotContains(t, c.Message, "kubectl -n "+s.obj.GetNamespace()+" delete machine", "Cluster API would cordon and delete the Node of the running cluster")
	s.remove()
	s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.NameTakenReason)
	testkit.ExpectNotFound(t, w.client, s.job(state.Remove, 1))

	for name, kind := range map[string]string{"gone": "DigitaloceanMachine", "odd": "OddMachine"} {
		planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.obj.GetNamespace(), Name: name, Labels: map[string]string{rkev1.MachineUIDLabel: "earlier"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: rkev1.MachineGroupVersion.String(), Kind: kind, Name: "victim", UID: "earlier", Controller: new(true)}}}}
		require.NoError(t, w.client.Create(t.Context(), planted))
	}
	tag("earlier")
	s.reconcile()
	require.Equal(t, "earlier", s.requestOf(state.Remove, 1).Tags[jobrunner.TagMachineUID])
}

// A state without its machine stays for the machine to come, and goes with its namespace.
func TestRestore_namespaceAlwaysGoes(t *testing.T) {
	for name, owners := range map[string]bool{"owned": true, "ownerless": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.machine("digitalocean", "m", droplet())
			saved := s.backup()
			s.apply(saved, owners, true)
			result := testkit.ExpectReconciled(t, s.reconciler, s.obj)
			require.Equal(t, time.Minute, result.RequeueAfter, "the end of a namespace wakes nobody")
			testkit.ExpectExists(t, w.client, s.stateSecret())
			testkit.ExpectExists(t, w.client, s.lastCredential())

			w.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
			testkit.ExpectReconciled(t, s.reconciler, s.obj)
			testkit.ExpectNotFound(t, w.client, s.stateSecret(), s.lastCredential())
		})
	}
}

// The garbage collector deletes a restored machine whose owner is not there. That is nobody's wish to remove its server, whether
// the manager saw the machine before or not; a deletion that somebody did wish for goes on.
func TestRestore_ownerIsNotThere(t *testing.T) {
	w := newWorld(t)
	restored := func(name string, stateless bool) (again *subject, saved []*corev1.Secret) {
		s := w.machine("digitalocean", name, droplet())
		saved = s.backup()
		if !stateless {
			s.apply(saved, true, true)
		}
		spec := droplet()
		spec["providerID"] = "digitalocean://123"
		again = w.machine("digitalocean", name, spec)
		owners := again.obj.GetOwnerReferences()
		owners[0].UID = "of-the-backup"
		again.obj.SetOwnerReferences(owners)
		again.obj.SetFinalizers([]string{rkev1.MachineFinalizer})
		w.update(again.obj)
		again.reconcile()
		again.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason)
		return again, saved
	}
	nothing := func(*subject) {}
	// adopt is what Cluster API does to what its Machine names, whether that is being deleted or not.
	adopt := func(s *subject) {
		s.read()
		s.obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.capi, clusterv1.GroupVersion.WithKind("Machine"))})
		w.update(s.obj)
	}
	// owns has the CAPI Machine owned by a MachineSet as a backup brings it back, with an owner of its own or without.
	owns := func(s *subject, owner *metav1.OwnerReference) (uid types.UID) {
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: s.obj.GetName()}, Spec: clusterv1.MachineSetSpec{ClusterName: "c",
			Template: clusterv1.MachineTemplateSpec{Spec: s.capi.Spec}, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
		set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
		if owner != nil {
			set.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		require.NoError(t, w.client.Create(t.Context(), set))
		return set.UID
	}
	ownedBy := func(s *subject, uid types.UID) {
		s.capi.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: s.obj.GetName(), UID: uid}}
		w.update(s.capi)
	}
	gone := &metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineDeployment", Name: "pool", UID: "of-the-backup"}
	for name, tt := range map[string]struct {
		say, then          func(*subject)
		removes, stateless bool
	}{
		"no-machine":                          {say: func(s *subject) { s.delete(s.capi) }},
		"another-machine":                     {say: nothing},
		"adopted-too-late":                    {say: nothing, then: adopt},
		"without-its-state":                   {say: nothing, stateless: true},
		"adopted-without-it":                  {say: nothing, then: adopt, stateless: true},
		"without-it-and-goes":                 {say: nothing, then: (*subject).deleteOwner, removes: true, stateless: true},
		"and-its-machine-goes":                {say: nothing, then: func(s *subject) { adopt(s); s.deleteOwner() }, removes: true},
		"its-machines-owner-is-of-the-backup": {say: func(s *subject) { owns(s, nil); ownedBy(s, "of-the-backup"); s.deleteOwner() }},
		"its-machines-owner-is-not-there":     {say: func(s *subject) { ownedBy(s, "of-the-backup"); adopt(s); s.deleteOwner() }},
		"the-owner-of-that-is-not-there":      {say: func(s *subject) { ownedBy(s, owns(s, gone)); s.deleteOwner() }},
		"without-it-and-without-that":         {say: func(s *subject) { ownedBy(s, "of-the-backup") }, then: (*subject).deleteOwner, stateless: true},
		"its-owners-are-a-circle": {say: func(s *subject) {
			uid := owns(s, &metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: s.capi.Name, UID: s.capi.UID})
			ownedBy(s, uid)
			s.deleteOwner()
		}, removes: true},
		"all-owners-are-there": {say: func(s *subject) { ownedBy(s, owns(s, nil)); s.deleteOwner() }, removes: true},
		"annotated":            {say: func(s *subject) { s.annotate(rkev1.RemoveRestoredAnnotation, s.obj.GetName()) }, removes: true},
		"annotated-otherwise":  {say: func(s *subject) { s.annotate(rkev1.RemoveRestoredAnnotation, "true") }},
		"its-machine-is-going": {say: (*subject).deleteOwner, removes: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, saved := restored(name, tt.stateless)
			tt.say(s)
			w.delete(s.obj)
			if tt.then != nil {
				tt.then(s)
			}
			s.reconcile()
			if tt.removes {
				require.Equal(t, tt.stateless, s.requestOf(state.Remove, 1).MayExist)
				return
			}
			c := s.expect(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.OwnerUnknownReason)
			require.Contains(t, c.Message, "To remove the server, set the annotation drover.cattle.io/remove-restored="+name)
			testkit.ExpectNotFound(t, w.client, s.job(state.Remove, 1))
			require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter, "the end of its namespace wakes nobody")
			if tt.stateless {
				testkit.ExpectNotFound(t, w.client, s.stateSecret())
				s.apply(saved, true, true) // no name is taken by what was made meanwhile
			}
			testkit.ExpectExists(t, w.client, s.stateSecret())

			// As the message says.
			require.NoError(t, w.client.Patch(t.Context(), s.obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			testkit.ExpectNotFound(t, w.client, s.obj)
			require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), s.capi)))
			again := w.machine("digitalocean", name, droplet())
			again.reconcile()
			again.requestOf(state.Create, 2)
		})
	}

	// A machine that is not being deleted yet takes nothing over while what owns its Machine is about to be: afterwards that would be anybody's deletion.
	adopted, _ := restored("adopted-in-time", false)
	ownedBy(adopted, owns(adopted, gone))
	adopt(adopted)
	adopted.reconcile()
	c := adopted.expect(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason)
	require.Contains(t, c.Message, "MachineSet adopted-in-time is owned by MachineDeployment pool (UID of-the-backup), which does not exist")
	testkit.ExpectNotFound(t, w.client, adopted.job(state.Create, 1))
	require.NotContains(t, testkit.ExpectExists(t, w.client, adopted.stateSecret()).Labels[rkev1.MachineUIDLabel], string(adopted.obj.GetUID()))
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "adopted-in-time"}}
	require.NoError(t, w.client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))))
	adopted.reconcile()
	require.Equal(t, string(adopted.obj.GetUID()), testkit.ExpectExists(t, w.client, adopted.stateSecret()).Labels[rkev1.MachineUIDLabel])

	s, _ := restored("given-up", false)
	s.annotate(rkev1.AbandonAnnotation, "given-up")
	w.delete(s.obj)
	w.events()
	testkit.ExpectReconciled(t, s.reconciler, s.obj)
	testkit.ExpectNotFound(t, w.client, s.obj, s.stateSecret(), s.job(state.Remove, 1))
	require.Contains(t, strings.Join(w.events(), "\n"), "ID 123, ", "the server is the user's now, and is named")
}

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
	require.Contains(t, strings.Join(w.events(), "\n"), "WaitingForOwner DigitaloceanMachine m does not exist, and its state Secret does not exist either")

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

// What was made for a machine that the API server let go at the same moment is of no use to anybody, unless a driver was asked for a server.
func TestOrphan_stateThatKnowsOfNoServerGoes(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*subject)
		stays   bool
	}{
		"no pod has written": {prepare: func(*subject) {}},
		"the pod failed before it asked": {prepare: func(s *subject) {
			s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Create, Attempt: 1, Outcome: state.Failed}})
		}},
		"the pod was about to ask": {stays: true, prepare: func(s *subject) {
			s.write(map[string]any{state.JournalKey: state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent}})
		}},
		"what it had said is lost": {stays: true, prepare: func(s *subject) {
			s.loseState(true)
			s.reconcile()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begun(t)
			c.prepare(s)
			s.vanish()
			kept := []client.Object{s.stateSecret(), s.lastCredential()}
			for _, secret := range kept {
				s.world.delete(secret) // by the garbage collector
			}
			end := testkit.ExpectExists(t, s.client, s.stateSecret()).DeletionTimestamp.Add(time.Hour)
			s.clock.SetTime(end.Add(-time.Second))
			s.events()
			require.Equal(t, time.Minute, testkit.ExpectReconciled(t, s.reconciler, s.obj).RequeueAfter)
			testkit.ExpectExists(t, s.client, s.stateSecret())
			require.Equal(t, !c.stays, strings.Contains(strings.Join(s.events(), "\n"), "no server was ever requested for it"))

			s.clock.SetTime(end)
			testkit.ExpectReconciled(t, s.reconciler, s.obj)
			testkit.ExpectReconciled(t, s.reconciler, s.obj) // the state's end wakes it
			if c.stays {
				testkit.ExpectExists(t, s.client, s.stateSecret())
				testkit.ExpectExists(t, s.client, s.lastCredential())
				return
			}
			testkit.ExpectNotFound(t, s.client, kept...)
		})
	}
}

func TestKeep_putsOwnersAndFinalizersBack(t *testing.T) {
	cases := map[string]func(*metav1.ObjectMeta){
		"owner lost":                  func(m *metav1.ObjectMeta) { m.OwnerReferences = nil },
		"finalizer lost":              func(m *metav1.ObjectMeta) { m.Finalizers = nil },
		"both lost":                   func(m *metav1.ObjectMeta) { m.OwnerReferences, m.Finalizers = nil, nil },
		"owner of another version":    func(m *metav1.ObjectMeta) { m.OwnerReferences[0].APIVersion = "rke-machine.cattle.io/v1alpha1" },
		"owner that does not control": func(m *metav1.ObjectMeta) { m.OwnerReferences[0].Controller = nil },
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			kept := []*corev1.Secret{s.stateSecret(), s.lastCredential()}
			for i := range kept {
				kept[i] = testkit.ExpectExists(t, s.client, kept[i])
				lose(&kept[i].ObjectMeta)
				require.NoError(t, s.client.Update(t.Context(), kept[i]))
			}
			s.obj.SetFinalizers(nil)
			require.NoError(t, s.client.Update(t.Context(), s.obj))

			s.reconcile()
			require.Equal(t, []string{rkev1.MachineFinalizer}, s.obj.GetFinalizers())
			for i := range kept {
				kept[i] = testkit.ExpectExists(t, s.client, kept[i])
				require.Equal(t, []string{rkev1.MachineFinalizer}, kept[i].Finalizers)
				require.Len(t, kept[i].OwnerReferences, 1)
				owner := metav1.GetControllerOf(kept[i])
				require.NotNil(t, owner)
				require.Equal(t, s.obj.GetUID(), owner.UID)
				require.Equal(t, s.obj.GetAPIVersion(), owner.APIVersion)
			}
			s.reconcile()
			for _, before := range kept {
				require.Equal(t, before.ResourceVersion, testkit.ExpectExists(t, s.client, before).ResourceVersion, "nothing to write")
			}
		})
	}
}
