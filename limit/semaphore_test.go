package limit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// A key at its cap does not delay other keys, and the cap of all holds.
func TestSemaphore(t *testing.T) {
	s := limit.NewSemaphore[string](2, 3)
	ended, end := context.WithCancel(t.Context())
	end()
	acquire := func(key string) func() {
		t.Helper()
		release, err := s.Acquire(ended, key)
		require.NoError(t, err, "a permit is free")
		return release
	}
	rejects := func(key, says string) {
		t.Helper()
		_, err := s.Acquire(ended, key)
		require.ErrorContains(t, err, says)
		require.ErrorIs(t, err, context.Canceled)
	}
	first, second := acquire("a"), acquire("a")
	rejects("a", "waiting for one of the 2 permits of a")
	third := acquire("b")
	rejects("b", "waiting for one of the permits of all")
	rejects("c", "waiting for one of the permits of all")
	first()
	first()
	first = acquire("a")
	rejects("b", "waiting for one of the permits of all")
	rejects("a", "waiting for one of the 2 permits of a")

	waits := make(chan func())
	go func() {
		release, err := s.Acquire(t.Context(), "a")
		if err == nil {
			waits <- release
		}
		close(waits)
	}()
	second()
	fourth := <-waits
	require.NotNil(t, fourth)
	for _, release := range []func(){first, third, fourth} {
		release()
	}
	require.Zero(t, s.Keys(), "keys without callers cost no memory")

	perKey := limit.NewSemaphore[int](1, 0)
	for key := range 1000 {
		_, err := perKey.Acquire(ended, key)
		require.NoError(t, err, "there is no cap for all")
	}
}
