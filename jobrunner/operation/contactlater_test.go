package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// TestContact_comesLater: the create is saved as a success before anybody logs in to the server, and a pod that is killed while it tries
// leaves that as it is. The next Job makes no second server, and a removal finds all it needs.
func TestContact_comesLater(t *testing.T) {
	t.Parallel()
	j := withBootstrap(newJob(t, "digitalocean"))
	j.request.SSHTimeoutSeconds = 120 // nobody listens at the instant server
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	j.client.PrependReactor("patch", "secrets", func(action clienttesting.Action) (bool, runtimeObject, error) {
		if len(patched(action)[state.ResultKey]) > 0 {
			kill()
		}
		return false, nil, nil
	})
	before := time.Now()
	code, result := j.run(ctx, state.Create)
	require.Less(t, time.Since(before), time.Minute, "a pod that is told to end waits for nothing")
	require.Equal(t, operation.ExitSucceeded, code, j.output.String())
	require.Equal(t, state.Succeeded, result.Outcome)
	require.Nil(t, result.Delivery.Proven)
	require.WithinRange(t, result.ContactUntil, before.Add(2*time.Minute), time.Now().Add(2*time.Minute))
	require.Contains(t, result.Delivery.Message, "the Job tries to log in for at most 2m0s")
	require.Equal(t, state.PhaseBootstrapped, j.journal())

	j.request.SSHTimeoutSeconds = 1
	j.mustCreate()
	require.Len(t, j.droplets(true), 1)
	j.mustRemove()
}
