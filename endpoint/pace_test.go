package endpoint

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// All agents behind one address are back in time after the manager was away, and somebody at another address notices nothing of it.
func TestPace(t *testing.T) {
	p := NewPace(PaceOptions{PerSecond: AgentLimits.NewPerSecond, AtOnce: AgentLimits.NewAtOnce})
	begin := time.Now()
	many, other := AddressOf("192.0.2.1:1"), AddressOf("192.0.2.2:1")
	left := AgentLimits.ConnectionsPerAddress
	for second := range 30 {
		now := begin.Add(time.Duration(second) * time.Second)
		for range left { // each that is not heard tries again
			if p.Allows(many, now) {
				left--
			}
		}
		if second == 0 {
			require.Equal(t, AgentLimits.ConnectionsPerAddress-AgentLimits.NewAtOnce, left)
		}
		require.True(t, p.Allows(other, now))
	}
	require.Zero(t, left)

	for i := range 2 * maxPaced {
		p.Allows(AddressOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)), begin)
	}
	require.Equal(t, maxPaced, p.limiters.Len(), "addresses cost no more memory than that")
	for range 10_000 {
		require.True(t, NewPace(PaceOptions{}).Allows(many, begin), "webhooks are called as fast as an API server likes")
	}
}
