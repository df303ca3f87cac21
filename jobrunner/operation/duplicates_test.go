package operation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// TestCreate_twoServers: an SDK repeats a create whose answer was lost, and the machine has two servers.
func TestCreate_twoServers(t *testing.T) {
	withData := func(j *job, registered string) {
		j.data, j.request.HasBootstrap, j.request.Registered = []byte("#cloud-config\n{}\n"), true, registered
	}
	t.Run("without bootstrap data", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "digitalocean")
		j.fault(fault.CreateDroplet, fault.Repeated, 1)
		result := j.mustCreate()
		require.Len(t, j.droplets(true), 2)
		requireKept(t, j)
		require.Contains(t, strings.Join(result.Notes, "\n"), "They were removed")
		j.mustRemove()
	})
	t.Run("no agent has registered", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "digitalocean")
		withData(j, jobrunner.RegisteredNone)
		j.fault(fault.CreateDroplet, fault.Repeated, 1)
		code, result := j.run(t.Context(), state.Create)
		require.Equal(t, operation.ExitFailed, code, "the manager looked before there was a server")
		require.Equal(t, []string{rkev1.DuplicateServersReason, rkev1.ClassTransient}, []string{result.Reason, result.Class})
		require.Len(t, j.droplets(false), 2)
		j.mustCreate()
		requireKept(t, j)
		j.mustRemove()
	})
	t.Run("the agent of the recorded server has registered", func(t *testing.T) {
		t.Parallel()
		j := newJob(t, "digitalocean")
		withData(j, jobrunner.RegisteredNone)
		j.fault(fault.CreateDroplet, fault.Repeated, 1)
		_, _ = j.run(t.Context(), state.Create)
		j.request.Registered = recordedID(t, j)
		j.mustCreate()
		requireKept(t, j)
		j.mustRemove()
	})
	for registered, why := range map[string]string{
		"":                          "Drover cannot know which one has joined",
		jobrunner.RegisteredUnknown: "the cloud does not tell from which one",
		"424242":                    "the agent has registered from server 424242",
	} {
		t.Run("nothing is removed, "+why, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, "digitalocean")
			withData(j, registered)
			j.fault(fault.CreateDroplet, fault.Repeated, 1)
			code, result := j.run(t.Context(), state.Create)
			require.Equal(t, operation.ExitFailed, code)
			require.Equal(t, []string{rkev1.DuplicateServersReason, rkev1.ClassInvalid}, []string{result.Reason, result.Class})
			require.Contains(t, result.Message, why)
			for _, droplet := range j.droplets(false) {
				if droplet.ID != recordedID(t, j) {
					require.Contains(t, result.Message, "server "+droplet.ID+" (")
				}
			}
			require.Len(t, j.droplets(false), 2)
			require.True(t, result.ServerMayExist)
			j.mustRemove()
		})
	}
}

// recordedID is the server that the state names.
func recordedID(t *testing.T, j *job) string {
	t.Helper()
	server, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.NotEmpty(t, server.InstanceID)
	return server.InstanceID
}

// requireKept: of all servers the recorded one is left.
func requireKept(t *testing.T, j *job) {
	t.Helper()
	left := j.droplets(false)
	require.Len(t, left, 1)
	require.Equal(t, recordedID(t, j), left[0].ID)
}
