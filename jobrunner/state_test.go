package jobrunner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestStateSecretOutlivesItsOwner(t *testing.T) {
	secret := stateSecret(t, task(state.Create))
	require.Equal(t, "pool1-abc-machine-state", secret.Name)
	require.Equal(t, []string{rkev1.MachineFinalizer}, secret.Finalizers)
	require.EqualValues(t, rkev1.MachineStateSecretType, secret.Type)
	require.Len(t, secret.OwnerReferences, 1)

	away := task(state.Remove)
	away.Owner, away.Base = nil, "refuge-name"
	away.Request.StateSecret = "refuge-name-machine-state"
	require.Empty(t, stateSecret(t, away).OwnerReferences, "an owner in another namespace would have it collected")
	require.Equal(t, "refuge-name-rm-1", away.Name())
	require.Equal(t, "refuge-name-machine", jobrunner.ServiceAccount(away).Name)
}

// The pod of a machine must reach no other machine's state.
func TestRoleReachesOneSecretOnly(t *testing.T) {
	for _, operation := range []state.Operation{state.Create, state.Remove} {
		rules := jobrunner.Role(task(operation)).Rules
		require.Len(t, rules, 1, operation)
		require.Equal(t, []string{"secrets"}, rules[0].Resources)
		require.Equal(t, []string{"pool1-abc-machine-state"}, rules[0].ResourceNames)
		require.NotContains(t, rules[0].Verbs, "list")
		require.NotContains(t, rules[0].Verbs, "*")
	}
	rules := jobrunner.Role(probe()).Rules
	require.Len(t, rules, 2)
	require.Equal(t, []string{"probe-linode-1"}, rules[0].ResourceNames)
	require.Equal(t, []string{"configmaps"}, rules[1].Resources)
	binding := jobrunner.RoleBinding(probe())
	require.Equal(t, jobrunner.Role(probe()).Name, binding.RoleRef.Name)
	require.Equal(t, jobrunner.ServiceAccount(probe()).Name, binding.Subjects[0].Name)
	require.Equal(t, "drover-drivers", binding.Subjects[0].Namespace)
}

// Names come from users: every label of every object must still be one that the API takes.
func TestLabelsHoldForEveryName(t *testing.T) {
	long := strings.Repeat("a", 120) + ".example"
	given := task(state.Create)
	given.Request.Machine.Name, given.CAPIMachine = long, long+".x"
	for key, value := range jobrunner.Job(given).Labels {
		require.Empty(t, validation.IsValidLabelValue(value), key)
	}
	for _, tag := range jobrunner.Tags(given.Request.Machine) {
		require.LessOrEqual(t, len(tag), 63)
	}
	require.Empty(t, validation.IsDNS1123Subdomain(given.Name()))
	require.Equal(t, "true", jobrunner.Job(task(state.Remove)).Labels[rkev1.InfraRemoveLabel])
	require.Equal(t, "false", jobrunner.Job(task(state.Create)).Labels[rkev1.InfraRemoveLabel])
	require.NotContains(t, jobrunner.ProbeJob(probe()).Labels, rkev1.InfraRemoveLabel)
}
