package limit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// The callers of a budget never hold more than the budget together, and release gives bytes back once.
func TestBytes(t *testing.T) {
	b := limit.NewBytes(100)
	requireFull := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := b.Acquire(ctx, 41)
		require.ErrorContains(t, err, "waiting for 41 of the 100 bytes")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	most, err := b.Acquire(t.Context(), 60)
	require.NoError(t, err)
	rest, err := b.Acquire(t.Context(), 40)
	require.NoError(t, err)
	requireFull()
	rest()
	rest()
	requireFull()
	most()

	alone, err := b.Acquire(t.Context(), 1<<40)
	require.NoError(t, err, "a caller that needs more than the budget runs alone")
	requireFull()
	waits := make(chan func())
	go func() {
		release, err := b.Acquire(t.Context(), 100)
		if err == nil {
			waits <- release
		}
		close(waits)
	}()
	alone()
	(<-waits)()
	_, err = b.Acquire(t.Context(), -1)
	require.NoError(t, err)
	_, err = b.Acquire(t.Context(), 100)
	require.NoError(t, err, "all bytes were given back")
}
