package faults

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// setting is the world in which a run takes place.
type setting struct {
	// habit is how the driver takes user data.
	habit string
	// restore is how a machine that was Ready is lost and comes back; empty when it is not.
	restore string
	// gone says that its server went meanwhile, and namesake that the state that comes back names another machine's.
	gone, namesake bool
}

// What a restore does.
const (
	// asApplied: `kubectl apply` of the Secrets with their owners, which the garbage collector deletes, then of the machine.
	asApplied = "as applied"
	// ownerless: Secrets without owners, as Velero restores them.
	ownerless = "without owners"
	// machineFirst: the machine waits for its state.
	machineFirst = "machine first"
	// ofAnotherOwner: the machine's owner reference names a CAPI Machine that was never here.
	ofAnotherOwner = "of another owner"
	// withoutState: the machine comes back without its state.
	withoutState = "without state"
	// bare: the machine comes back as it was first applied, without its state and without the provider ID.
	bare = "bare"
	// stateLost: nothing but the state is lost.
	stateLost = "state lost"
)

var restores = []string{asApplied, ownerless, machineFirst, ofAnotherOwner, withoutState, bare, stateLost}

// plain is the world of the enumerated faults while a server is made or removed.
var plain = setting{habit: "path"}

// settingOf is drawn from the number of a run.
func settingOf(random *rand.Rand, restored bool) setting {
	s := setting{habit: pick(random, slices.Sorted(maps.Keys(habits)))}
	if restored || random.IntN(2) == 0 {
		s.restore = pick(random, restores)
		s.gone = random.IntN(3) == 0
		s.namesake = s.hasState() && random.IntN(3) == 0
	}
	return s
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// hasState reports whether the state comes back.
func (s setting) hasState() bool {
	return !slices.Contains([]string{withoutState, bare, stateLost}, s.restore)
}

// losesTag reports whether nobody knows any more by which UID the server was tagged.
func (s setting) losesTag() bool { return s.restore == withoutState || s.restore == bare }

// names are what a report counts of a setting.
func (s setting) names() []string {
	out := []string{"user data " + s.habit, "restored " + cmp.Or(s.restore, "not")}
	if s.gone {
		out = append(out, "server gone")
	}
	if s.namesake {
		out = append(out, "namesake by ID")
	}
	return out
}

func (s setting) String() string { return strings.Join(s.names(), ", ") }

// backup is what is kept of a machine.
type backup struct {
	secrets            []*corev1.Secret
	providerID, server string
}

// comeBack loses a machine that is Ready, restores it, and drives it until it is Ready again or says what is to be done.
func (w *world) comeBack() error {
	w.Helper()
	how := w.setting.restore
	saved := w.lose()
	if w.setting.gone {
		w.loseServer()
	}
	w.say("the machine is lost: %s", w.setting)
	switch how {
	case bare:
		for _, record := range slices.DeleteFunc(w.droplets(), isGone) {
			w.spared[record.ID] = true
		}
		w.makeMachine("")
		return w.comeReady()
	case stateLost:
		return w.deadEnd(rkev1.CreateJobCondition, rkev1.StateMissingReason, "restore it from a backup, or delete the machine")
	case withoutState, machineFirst:
		w.makeMachine(saved.providerID)
		if err := w.deadEnd(rkev1.CreateJobCondition, rkev1.StateMissingReason, "restore it from a backup, or delete the machine"); err != nil || how == withoutState {
			return err
		}
		w.apply(saved)
	default:
		w.apply(saved)
		w.reconcile() // the Secrets wake a machine that is not there
		if how == ofAnotherOwner {
			if err := w.ownedByNobody(saved); err != nil {
				return err
			}
		}
		w.makeMachine(saved.providerID)
	}
	w.stateless = false
	err := w.comeReady()
	if waits, waiting := w.waitsForMachine(); waits {
		w.say("the state waits for its machine")
		w.makeMachine(saved.providerID)
		err = w.comeReady()
	} else if waiting != nil {
		return waiting
	}
	if err != nil || w.obj.GetDeletionTimestamp() != nil {
		return err
	}
	live := slices.DeleteFunc(w.droplets(), isGone)
	if !w.lost && !w.setting.gone && len(live) == 1 && live[0].ID != saved.server {
		return fmt.Errorf("server %s was there and was not taken, but %s made", saved.server, live[0].ID)
	}
	return nil
}

// lose takes the machine away with all that was made for it, as a cluster does that is lost, or no more than its state.
func (w *world) lose() backup {
	w.Helper()
	require.True(w, w.read())
	saved := backup{}
	saved.providerID, _, _ = unstructured.NestedString(w.obj.Object, "spec", "providerID")
	saved.server = strings.TrimPrefix(saved.providerID, "digitalocean://")
	w.stateless = true
	stateName := jobrunner.StateSecretName(machineName)
	w.each(func(obj client.Object) {
		secret, isSecret := obj.(*corev1.Secret)
		if isSecret && (secret.Name == stateName || secret.Name == jobrunner.CredentialSecretName(machineName)) {
			saved.secrets = append(saved.secrets, secret.DeepCopy())
		}
		if w.setting.restore != stateLost || isSecret && secret.Name == stateName {
			w.drop(obj)
		}
	})
	if w.setting.restore != stateLost {
		owner := w.owner.DeepCopy()
		w.drop(w.obj.DeepCopy())
		w.drop(owner)
		w.startManager()
	}
	return saved
}

// drop deletes an object whatever keeps it.
func (w *world) drop(obj client.Object) {
	w.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), obj, patch)))
	require.NoError(w, client.IgnoreNotFound(w.admin.Delete(w.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground))))
}

// each visits all that was made for the machine.
func (w *world) each(visit func(client.Object)) {
	w.Helper()
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &batchv1.JobList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		require.NoError(w, w.admin.List(w.Context(), list, client.InNamespace(w.namespace)))
		items, err := metaItems(list)
		require.NoError(w, err)
		for _, item := range items {
			if item.GetName() != "bootstrap" && item.GetName() != "cred" {
				visit(item)
			}
		}
	}
}

// apply brings the Secrets back. The garbage collector deletes what has an owner that is not there, as it does at once.
func (w *world) apply(saved backup) {
	w.Helper()
	for _, secret := range saved.secrets {
		secret.ResourceVersion, secret.UID, secret.ManagedFields = "", "", nil
		if w.setting.restore == ownerless {
			secret.OwnerReferences = nil
		}
		if w.setting.namesake && len(secret.Data[state.ExtractedConfigKey]) > 0 {
			other := w.another()
			w.rename(secret, other)
			secret.Data[state.ServerKey] = bytes.ReplaceAll(secret.Data[state.ServerKey], []byte(saved.server), []byte(other))
		}
		require.NoError(w, w.admin.Create(w.Context(), secret.DeepCopy()))
		if w.setting.restore != ownerless {
			require.NoError(w, w.admin.Delete(w.Context(), secret.DeepCopy()))
		}
	}
}

// ownedByNobody restores the machine with an owner that was never here. The garbage collector deletes it; what it says then is
// done.
func (w *world) ownedByNobody(saved backup) error {
	w.Helper()
	w.makeMachine(saved.providerID)
	owners := w.obj.GetOwnerReferences()
	owners[0].UID = "of-the-backup"
	w.obj.SetOwnerReferences(owners)
	w.obj.SetFinalizers([]string{rkev1.MachineFinalizer})
	require.NoError(w, w.admin.Update(w.Context(), w.obj))
	w.deleteMachine()
	if err := w.deadEnd(rkev1.DeleteJobCondition, rkev1.OwnerUnknownReason, "apply it again without"); err != nil {
		return err
	}
	w.drop(w.obj.DeepCopy())
	w.drop(w.owner.DeepCopy())
	return nil
}

// deadEnd drives the machine until it says what is to be done, which it must say as long as nobody does it.
func (w *world) deadEnd(kind, reason, says string) error {
	w.Helper()
	const staysFor = 3
	said := 0
	for range maxTurns {
		if there := w.turn(); !there || w.obj.GetDeletionTimestamp() != nil && kind != rkev1.DeleteJobCondition {
			return w.neverTwo()
		}
		if c := w.condition(kind); c.Reason != reason {
			said = 0
			continue
		} else if !strings.Contains(c.Message, says) {
			return fmt.Errorf("%s does not say %q: %s", reason, says, c.Message)
		}
		if said++; said == staysFor {
			return w.neverTwo()
		}
	}
	return fmt.Errorf("stuck: the machine does not say %s after %d turns", reason, maxTurns)
}

// another is a server of another machine, which nobody may touch.
func (w *world) another() string {
	w.Helper()
	made, err := theCloud.Account.CreateDroplet(account.Caller{Token: w.token}, account.DropletRequest{
		Name: "another", Region: "nyc3", Size: "s-1vcpu-1gb", Image: "ubuntu-22-04-x64", Tags: []string{"drover-machine-uid:another"}}, fault.Boot{})
	require.NoError(w, err)
	id := fmt.Sprint(made.ID)
	w.spared[id] = true
	return id
}

// rename makes the record in the state name another server.
func (w *world) rename(secret *corev1.Secret, server string) {
	w.Helper()
	files, err := sshkeys.ReadArchive(secret.Data[state.ExtractedConfigKey])
	require.NoError(w, err)
	for i := range files {
		files[i].Content = dropletID.ReplaceAll(files[i].Content, []byte(`"DropletID":`+server))
	}
	secret.Data[state.ExtractedConfigKey], err = sshkeys.WriteArchive("/root/.docker/machine/machines", files)
	require.NoError(w, err)
	w.kept = ""
	w.say("the state names server %s of another machine", server)
}

// nameAnothers makes the record in the state name the server of another machine, as an edited one does.
func (w *world) nameAnothers() {
	w.Helper()
	secret := &corev1.Secret{}
	err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}, secret)
	if apierrors.IsNotFound(err) || len(secret.Data[state.ExtractedConfigKey]) == 0 {
		return
	}
	require.NoError(w, err)
	w.rename(secret, w.another())
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{state.ExtractedConfigKey: secret.Data[state.ExtractedConfigKey]}})
	require.NoError(w, err)
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), secret, client.RawPatch("application/merge-patch+json", patch))))
}
