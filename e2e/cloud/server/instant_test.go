package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestInstantFollowsPowerAndRemoval(t *testing.T) {
	backend := server.NewInstant()
	ctx := t.Context()
	require.ErrorIs(t, backend.Power(ctx, "a", server.PowerOn), server.ErrNotFound)
	require.NoError(t, backend.Create(ctx, server.Spec{Name: "a"}))

	for change, running := range map[server.Power]bool{
		server.PowerOff: false, server.PowerOn: true, server.Shutdown: false, server.Reboot: true,
	} {
		require.NoError(t, backend.Power(ctx, "a", change))
		require.Equal(t, running, backend.Running("a"), change)
	}
	require.NoError(t, backend.Destroy(ctx, "a"))
	require.NoError(t, backend.Destroy(ctx, "a"))
	require.False(t, backend.Running("a"))
}
