package endpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/drover-project/drover/limit"
)

// All agents behind one address are connected again within 30 seconds after the manager was away, and another address is not delayed.
func TestAgentLimits(t *testing.T) {
	b := limit.NewBuckets[any](rate.Limit(AgentLimits.NewPerSecond), AgentLimits.NewAtOnce)
	begin := time.Now()
	many, other := AddressOf("192.0.2.1:1"), AddressOf("192.0.2.2:1")
	left := AgentLimits.ConnectionsPerAddress
	for second := range 30 {
		now := begin.Add(time.Duration(second) * time.Second)
		for range left { // each that is rejected tries again
			if b.Allow(many, now) {
				left--
			}
		}
		if second == 0 {
			require.Equal(t, AgentLimits.ConnectionsPerAddress-AgentLimits.NewAtOnce, left)
		}
		require.True(t, b.Allow(other, now))
	}
	require.Zero(t, left)
}
