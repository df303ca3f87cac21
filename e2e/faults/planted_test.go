package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner"
)

// An oracle that never finds anything would be of no use: each thing it looks for is done to a machine, and found.
func TestOracle_findsWhatWasDone(t *testing.T) {
	w := newWorld(t, newLab(t), tokenOf(0), plain)
	w.arm(creating, nil)
	require.NoError(t, w.comeReady())
	require.NoError(t, w.forgotten())
	key := client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}
	change := func(body string) {
		state := &corev1.Secret{}
		require.NoError(t, w.admin.Get(t.Context(), key, state))
		require.NoError(t, w.admin.Patch(t.Context(), state, client.RawPatch("application/merge-patch+json", []byte(body))))
	}

	change(`{"metadata":{"finalizers":null}}`)
	require.ErrorContains(t, w.forgotten(), "nothing keeps the state")
	change(`{"data":{"journal.json":null}}`)
	require.ErrorContains(t, w.forgotten(), "not in its journal")
	change(fmt.Sprintf(`{"data":{"journal.json":"e30="},"metadata":{"finalizers":[%q]}}`, rkev1.MachineFinalizer))
	require.NoError(t, w.forgotten())
	change(`{"data":{"extractedConfig":null}}`)
	require.ErrorContains(t, w.forgotten(), "was there and is lost")
	require.ErrorContains(t, w.whenReady(), "its state has no extractedConfig")
	change(fmt.Sprintf(`{"stringData":{"log.txt":%q}}`, w.secretToken))
	require.ErrorContains(t, w.nothingShown(), "a secret is shown")
	require.ErrorContains(t, w.whenGone(), "a secret is shown")
	change(`{"data":{"log.txt":null}}`)
	require.ErrorContains(t, w.whenGone(), "is left at the cloud")

	made := w.droplets()[0]
	_, err := theCloud.Account.CreateDroplet(account.Caller{Token: w.token}, account.DropletRequest{
		Name: "second", Region: "nyc3", Size: "s-1vcpu-1gb", Image: "ubuntu-22-04-x64", Tags: made.Tags}, fault.Boot{})
	require.NoError(t, err)
	require.ErrorContains(t, w.whenReady(), "at the same time")
	w.loseServer()
	require.ErrorContains(t, w.neverTwo(), "at the same time", "the cloud does not forget")
}

// What is left because the cloud refused to remove it is no fault of ours; what it refused elsewhere excuses nothing.
func TestOracle_excusesOnlyTheTagThatWasRefused(t *testing.T) {
	w := &world{T: t, token: "worker-0", armed: map[trouble]string{}, struck: map[trouble]bool{}}
	w.armed[trouble{phase: removing, place: atCloud, kind: "403"}] = w.addRule(fault.Rule{Match: fault.AnyRequest, Token: w.token, Effect: forbidden()})
	defer w.cure()
	ask := func(path string) {
		theCloud.Faults.Apply(fault.Request{Method: "DELETE", Path: path, Token: w.token})
	}
	ask("/v2/account/keys/1")
	require.False(t, w.isRefused("drover-cluster:c1"))
	ask("/v2/tags/drover-cluster:c1")
	require.True(t, w.isRefused("drover-cluster:c1"))
	require.False(t, w.isRefused("drover-machine-uid:1"))
}

func TestOracle_findsAWrongCause(t *testing.T) {
	w := &world{T: t, classes: map[string]string{rkev1.ClassQuota: "will exceed your droplet limit"}}
	at := func(place, kind string) []trouble { return []trouble{{phase: creating, place: place, kind: kind}} }
	require.NoError(t, w.trueCause(creating, at(atCloud, "quota")))
	require.ErrorContains(t, w.trueCause(creating, at(atCloud, "401")), "[Unauthorized] would be true")
	require.ErrorContains(t, w.trueCause(creating, at(manager, "killed before")), "would be true")
	require.ErrorContains(t, w.trueCause(creating, at(onDisk, noPages)), "would be true")
	require.NoError(t, w.trueCause(removing, at(atCloud, "401")), "another phase")
	require.NoError(t, w.trueCause(creating, append(at(atCloud, "401"), at(pod, "answer lost")...)), "of two, either may be the cause")
	w.classes = map[string]string{rkev1.ClassTransient: "it did not work"}
	require.ErrorContains(t, w.trueCause(creating, at(onDisk, noPages)), "no space left")
}
