package limit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// A bucket gives its burst, and then so many tokens a second. Buckets do not affect each other.
func TestBuckets(t *testing.T) {
	b := limit.NewBuckets[int](10, 50)
	begin := time.Now()
	left := 200
	for second := range 16 {
		now := begin.Add(time.Duration(second) * time.Second)
		for range left {
			if b.Allow(-1, now) {
				left--
			}
		}
		if second == 0 {
			require.Equal(t, 150, left)
			require.InDelta(t, 0, b.Tokens(-1, now), 0.01)
		}
		require.True(t, b.Allow(-2, now))
	}
	require.Zero(t, left)
	require.InDelta(t, 50, b.Tokens(-3, begin), 0.01)
	require.Equal(t, 2, b.Keys(), "to ask for the tokens of a key does not remember the key")

	for key := range 20_000 {
		b.Allow(key, begin)
	}
	require.Equal(t, 8192, b.Keys(), "keys are cheap for an attacker, so their number is bounded")
	unlimited := limit.NewBuckets[int](0, 0)
	for range 10_000 {
		require.True(t, unlimited.Allow(1, begin))
	}
}

// Wait takes tokens when they are there, and ends with the context.
func TestBuckets_wait(t *testing.T) {
	b := limit.NewBuckets[string](1000, 10)
	begin := time.Now()
	require.NoError(t, b.Wait(t.Context(), "a", 10))
	require.NoError(t, b.Wait(t.Context(), "a", 10))
	require.Greater(t, time.Since(begin), 9*time.Millisecond)
	require.ErrorContains(t, b.Wait(t.Context(), "a", 11), "exceeds limiter's burst")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Wait(ctx, "a", 5), context.Canceled)
}
