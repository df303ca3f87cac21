package inventory_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestAnnotate(t *testing.T) {
	w := newWorld(t)
	m := w.machine(t, "GenericMachine", "b", `, annotations: {kept: "yes"}`)
	require.NoError(t, w.Annotate(t.Context(), m, "drover.cattle.io/retry", "1"))
	require.NoError(t, w.Annotate(t.Context(), m, "drover.cattle.io/retry", "2"))
	object := w.object(t, m)
	require.Equal(t, map[string]string{"kept": "yes", "drover.cattle.io/retry": "2"}, object.GetAnnotations())
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, entry.Manager)
	}
	require.Contains(t, managers, "drover-cli")

	ns := w.namespace
	err := w.as(t, "viewer", may("rke-machine.cattle.io", []string{"*"}, []string{"get"})).Annotate(t.Context(), m, "k", "v")
	require.Equal(t, "annotating GenericMachine "+ns+`/b: genericmachines.rke-machine.cattle.io "b" is forbidden: User "viewer" cannot patch resource "genericmachines" in API group "rke-machine.cattle.io" in the namespace "`+ns+`"`,
		inventory.Plain(err))

	require.NoError(t, w.Delete(t.Context(), object))
	require.EqualError(t, w.Annotate(t.Context(), m, "k", "v"), "annotating GenericMachine "+ns+"/b: it is gone")
	again := w.machine(t, "GenericMachine", "b", "")
	require.EqualError(t, w.Annotate(t.Context(), m, "drover.cattle.io/abandon", "b"),
		"annotating GenericMachine "+ns+"/b: it was deleted and made again in the meantime; look at it again first")
	require.Empty(t, w.object(t, again).GetAnnotations(), "nobody asked to give up the new machine's server")
}

func (w *world) object(t *testing.T, m *facts.Machine) *unstructured.Unstructured {
	t.Helper()
	u, err := w.Dynamic.Resource(inventory.ResourceOf(m.Kind)).Namespace(m.Namespace).Get(t.Context(), m.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return u
}

func TestStateSecret(t *testing.T) {
	w := newWorld(t)
	ours := w.machine(t, "GenericMachine", "twin", "")
	theirs := w.machine(t, "DigitaloceanMachine", "twin", "")
	secret, err := w.StateSecret(t.Context(), ours)
	require.NoError(t, err)
	require.Nil(t, secret)
	got, err := w.State(t.Context(), ours)
	require.NoError(t, err)
	require.Equal(t, &facts.State{}, got)

	made := w.secret(t, jobrunner.StateSecretName("twin"), map[string]string{state.LogKey: "said", state.SSHPrivateKeyKey: "SECRET"})
	secret, err = w.StateSecret(t.Context(), ours)
	require.NoError(t, err, "a Secret without an owner was restored by hand")
	require.Equal(t, made.UID, secret.UID)

	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "rke-machine.cattle.io/v1", Kind: "DigitaloceanMachine", Name: "twin", UID: theirs.UID, Controller: new(true)}}
	require.NoError(t, w.Update(t.Context(), made))
	_, err = w.StateSecret(t.Context(), ours)
	require.EqualError(t, err, "the Secret twin-machine-state is not this machine's: it belongs to DigitaloceanMachine twin")
	_, err = w.State(t.Context(), ours)
	require.ErrorContains(t, err, "is not this machine's")
	again := *theirs
	again.UID = "restored"
	_, err = w.StateSecret(t.Context(), &again)
	require.EqualError(t, err, "the Secret twin-machine-state is not this machine's: it belongs to an earlier DigitaloceanMachine of this name, UID "+string(theirs.UID))
	got, err = w.State(t.Context(), theirs)
	require.NoError(t, err)
	require.Equal(t, "said", got.Log)

	_, err = w.as(t, "auditor").StateSecret(t.Context(), theirs)
	require.Equal(t, "getting Secret "+w.namespace+`/twin-machine-state: secrets "twin-machine-state" is forbidden: User "auditor" cannot get resource "secrets" in API group "" in the namespace "`+w.namespace+`"`,
		inventory.Plain(err))
}

func TestRecordHostKey(t *testing.T) {
	w := newWorld(t)
	m := w.machine(t, "GenericMachine", "b", "")
	line := []byte("198.18.0.3 ssh-ed25519 AAAA\n")
	require.EqualError(t, w.RecordHostKey(t.Context(), m, line), "recording the host key: the state Secret is gone")

	secret := w.secret(t, jobrunner.StateSecretName("b"), nil)
	require.NoError(t, w.RecordHostKey(t.Context(), m, line), "also into a Secret that is empty")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	require.Equal(t, map[string][]byte{state.SSHKnownHostsKey: line}, secret.Data)

	require.EqualError(t, w.RecordHostKey(t.Context(), m, []byte("other")),
		"recording the host key: another one was recorded in the meantime; try again without --accept-new-host-key")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	require.Equal(t, line, secret.Data[state.SSHKnownHostsKey], "a recorded key is never replaced")

	reader := w.as(t, "reader", may("", []string{"secrets"}, []string{"get"}))
	require.ErrorContains(t, reader.RecordHostKey(t.Context(), m, line), "another one was recorded")
	delete(secret.Data, state.SSHKnownHostsKey)
	require.NoError(t, w.Update(t.Context(), secret))
	require.Equal(t, "recording the host key in Secret "+w.namespace+`/b-machine-state: secrets "b-machine-state" is forbidden: User "reader" cannot update resource "secrets" in API group "" in the namespace "`+w.namespace+`"`,
		inventory.Plain(reader.RecordHostKey(t.Context(), m, line)))
}

// TestRecordHostKeyAtOnce: of many who learn keys at the same time, one records its own and the others are told.
func TestRecordHostKeyAtOnce(t *testing.T) {
	w := newWorld(t)
	m := w.machine(t, "GenericMachine", "b", "")
	secret := w.secret(t, jobrunner.StateSecretName("b"), map[string]string{state.LogKey: "kept"})
	const many = 8
	// Everybody has read the Secret before anybody writes.
	var read sync.WaitGroup
	read.Add(many)
	held := w.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			read.Done()
			read.Wait()
		}
		return false
	})
	errs := make([]error, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() { errs[i] = held.RecordHostKey(t.Context(), m, []byte{'a' + byte(i)}) })
	}
	all.Wait()
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	require.Equal(t, []byte("kept"), secret.Data[state.LogKey])
	recorded := secret.Data[state.SSHKnownHostsKey]
	require.Len(t, recorded, 1)
	for i, err := range errs {
		if recorded[0] == 'a'+byte(i) {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, "recording the host key: the state Secret changed in the meantime; try again")
	}
}

func TestCheckName(t *testing.T) {
	for name, want := range map[string]string{
		"web-1": "", "a.b": "", "web 1": "", "…": "",
		"":         "a name is empty: write NAME or KIND/NAME",
		".":        `"." is not a valid name: it may not be '.'`,
		"a/b":      `"a/b" is not a valid name: it may not contain '/'`,
		"%2e%2e/x": `"%2e%2e/x" is not a valid name: it may not contain '/', may not contain '%'`,
	} {
		err := inventory.CheckName(name)
		if want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.EqualError(t, err, want)
	}
}
