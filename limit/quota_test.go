package limit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/limit"
)

// The caps of a key and of all hold, an item counts once, and a rejected item counts as before.
func TestQuota(t *testing.T) {
	q := limit.NewQuota[string, int](10, 15)
	require.True(t, q.Set("a", 1, 6))
	require.True(t, q.Set("a", 1, 8), "an item counts once")
	require.False(t, q.Set("a", 2, 3), "the key has 2 left")
	require.False(t, q.Set("a", 1, 11))
	require.Equal(t, 8, q.Used("a"), "a rejected item counts as before")
	require.True(t, q.Set("b", 3, 7))
	require.False(t, q.Set("c", 4, 1), "all keys together are at the cap")
	require.True(t, q.Set("c", 1, 8), "an item can change its key")
	require.Zero(t, q.Used("a"))
	for range 2 {
		q.Delete(1)
		require.Zero(t, q.Used("c"), "an item is given back once")
		require.Equal(t, 7, q.Used("b"))
	}
	require.True(t, q.Set("a", 2, 8))

	unlimited := limit.NewQuota[string, int](0, 0)
	require.True(t, unlimited.Set("a", 1, 1<<40))
}
