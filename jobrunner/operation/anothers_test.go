package operation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// anothersState is the job of another machine, whose state is a copy of this one's: a state that was edited, or restored under
// another name.
func anothersState(t *testing.T, j *job) *job {
	t.Helper()
	secret, err := j.client.CoreV1().Secrets("team").Get(context.Background(), stateName, metav1.GetOptions{})
	require.NoError(t, err)
	other := *j
	other.t, other.output = t, &syncBuffer{}
	other.client = fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: stateName}, Data: secret.Data})
	other.request.Attempt, other.request.Machine.Name, other.request.Machine.UID = 1, j.request.Machine.Name+"-another", j.request.Machine.UID+"-other"
	other.request.Tags = jobrunner.Tags(other.request.Machine)
	return &other
}

// A server whose tag names another machine is neither taken nor started nor removed, although the state names it.
func TestAnothers(t *testing.T) {
	t.Parallel()
	mine := newJob(t, "digitalocean")
	mine.mustCreate()
	id := mine.droplets(false)[0].ID

	other := anothersState(t, mine)
	other.request.InstanceName = "another-pool-1"
	code, result := other.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitSucceeded, code, "%s\n%s", result.Message, other.output)
	require.Contains(t, result.Notes[0], mine.request.Machine.Name, "whose it is is told")
	require.Contains(t, result.Notes[0], "so Drover does not change it")
	own, err := state.ReadServer(other.state())
	require.NoError(t, err)
	require.NotEqual(t, id, own.InstanceID, "it has one of its own")
	other.mustRemove()

	third := anothersState(t, mine)
	code, result = third.run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, "%s\n%s", result.Message, third.output)
	require.Contains(t, result.Notes[0], "so Drover does not change it")
	require.Len(t, mine.droplets(false), 1, "another machine's server")
	mine.mustRemove()
}

// An inherited UID, which is written in a state that its user may edit, makes another machine's server nobody else's: only with the
// tag of the machine's name is it the machine's.
func TestAnothers_inheritedTag(t *testing.T) {
	t.Parallel()
	mine := newJob(t, "digitalocean")
	mine.mustCreate()
	id := mine.droplets(false)[0].ID
	forged := func() *job {
		other := anothersState(t, mine)
		other.request.Tags[jobrunner.TagMachineUID] = mine.request.Machine.UID
		return other
	}
	code, result := forged().run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitSucceeded, code, result.Message)
	require.Contains(t, result.Notes[0], "so Drover does not change it")
	require.Len(t, mine.droplets(false), 1)

	lost := forged()
	lost.emptyState()
	lost.request.MayExist = true
	_, result = lost.run(t.Context(), state.Remove)
	require.Len(t, mine.droplets(false), 1, "nor is it found by its tag: %s", result.Message)

	other := forged()
	other.request.InstanceName = "another-pool-2"
	code, result = other.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitSucceeded, code, "%s\n%s", result.Message, other.output)
	own, err := state.ReadServer(other.state())
	require.NoError(t, err)
	require.NotEqual(t, id, own.InstanceID, "it has one of its own")
	other.mustRemove()
	require.Len(t, mine.droplets(false), 1)

	restored := anothersState(t, mine)
	restored.request.Machine.Name = mine.request.Machine.Name
	restored.request.Tags = jobrunner.Tags(restored.request.Machine)
	restored.request.Tags[jobrunner.TagMachineUID] = mine.request.Machine.UID
	restored.mustCreate()
	require.Len(t, mine.droplets(false), 1, "a restored machine has its server")
	restored.mustRemove()
	require.Empty(t, mine.droplets(false))
}

// Nor where nothing but the ID is known, so that the machine's own server cannot be looked for: that is for the user to do.
func TestAnothers_vsphere(t *testing.T) {
	t.Parallel()
	mine, s, _ := vsphereJob(t)
	mine.mustCreate()
	for _, kind := range []state.Operation{state.Create, state.Remove} {
		other := anothersState(t, mine)
		code, result := other.run(t.Context(), kind)
		require.Equal(t, operation.ExitFailed, code)
		require.Contains(t, result.Notes[0], "so Drover does not change it")
		require.Equal(t, "ServerMayExist", result.Reason, result.Message)
		require.Len(t, machinesAt(t, s), 1)
	}
	mine.mustRemove()
}

// What has no tag of ours, as after it was taken over from Rancher, is the machine's as its record says.
func TestAnothers_untagged(t *testing.T) {
	t.Parallel()
	mine, s, _ := vsphereJob(t)
	mine.request.Tags = nil
	mine.mustCreate()
	other := anothersState(t, mine)
	other.request.Tags = jobrunner.Tags(other.request.Machine)
	other.mustCreate()
	require.Len(t, machinesAt(t, s), 1)
	other.mustRemove()
	require.Empty(t, machinesAt(t, s))
}

// A restored machine whose state is lost has another UID than its server's tag. What its provider ID names is looked for: it is neither
// removed nor forgotten, and no other is made in its place when it is gone.
func TestAnothers_byProviderID(t *testing.T) {
	t.Parallel()
	mine := newJob(t, "digitalocean")
	mine.mustCreate()
	id := "digitalocean://" + mine.droplets(false)[0].ID
	restored := func(t *testing.T, providerID string) *job {
		t.Helper()
		j := anothersState(t, mine)
		j.client = fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: stateName}})
		j.request.ProviderID, j.request.MayExist = providerID, true
		return j
	}
	code, result := restored(t, id).run(t.Context(), state.Remove)
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, "ServerMayExist", result.Reason)
	require.Contains(t, result.Message, "its provider ID names server "+mine.droplets(false)[0].ID)
	require.Len(t, mine.droplets(false), 1)
	t.Run("unknown", func(t *testing.T) {
		for _, unknown := range []string{"", "k3s://m", "digitalocean://1"} {
			t.Run(unknown, func(t *testing.T) {
				t.Parallel()
				code, result := restored(t, unknown).run(t.Context(), state.Remove)
				require.Equal(t, operation.ExitSucceeded, code, result.Message)
			})
		}
	})
	mine.mustRemove()
	restored(t, id).mustRemove()

	again := restored(t, id)
	again.request.MayExist = false
	code, result = again.run(t.Context(), state.Create)
	require.Equal(t, operation.ExitFailed, code)
	require.Equal(t, "ServerGone", result.Reason)
	require.Contains(t, result.Message, "delete the CAPI Machine to get another server")
	require.Empty(t, mine.droplets(false))
}

// A backup has brought back a Job, or its state: the server that the Job was to make runs long since, and the state of then says that it is unfinished.
func TestAnotherState(t *testing.T) {
	j := newJob(t, "digitalocean")
	j.mustCreate()
	server, there := j.droplets(false), j.state()
	j.request.StateUID = "of-then"
	for _, kind := range []state.Operation{state.Create, state.Remove} {
		code, _ := j.run(t.Context(), kind)
		require.Equal(t, operation.ExitFailed, code)
		require.Contains(t, j.output.String(), "it is not the Secret that this Job was created for")
		require.Equal(t, server, j.droplets(false))
		require.Equal(t, there, j.state(), "nor is anything said of it")
	}
	j.request.StateUID = ""
	j.mustRemove()
}
