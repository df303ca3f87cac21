package agent

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

func TestAddresses(t *testing.T) {
	found := Addresses()
	require.True(t, slices.IsSorted(found))
	for _, text := range found {
		address, err := netip.ParseAddr(text)
		require.NoError(t, err)
		require.True(t, address.IsGlobalUnicast(), text)
	}
}

// TestReport_addresses: an address that changes, also while the agent was away, is reported after it has settled, in one write.
func TestReport_addresses(t *testing.T) {
	w := newWorld(t)
	has := []string{"10.0.0.1"}
	w.o.Addresses = func() []string { return has }
	w.secret.deliver(t, plan.Plan{Probes: map[string]plan.Probe{"kubelet": {HTTPGet: plan.HTTPGet{URL: "http://127.0.0.1:1"}}}})
	w.until(func() bool { return len(w.secret.status(t).Addresses) > 0 })
	require.Equal(t, has, w.secret.status(t).Addresses)

	// The server starts again: its interfaces come one after the other.
	has = nil
	w.restart()
	w.o.Addresses = func() []string { return has }
	w.looks(2)
	require.Equal(t, []string{"10.0.0.1"}, w.secret.status(t).Addresses, "a start alone changes no report")
	writes := w.secret.writes
	for _, now := range [][]string{{"203.0.113.7"}, {"10.0.0.77", "203.0.113.7"}} {
		has = now
		w.looks(2)
		require.Equal(t, []string{"10.0.0.1"}, w.secret.status(t).Addresses)
	}
	w.until(func() bool { return len(w.secret.status(t).Addresses) == 2 })
	require.Equal(t, has, w.secret.status(t).Addresses)
	require.Equal(t, writes+1, w.secret.writes)
	require.WithinDuration(t, noon, w.clock.Now(), 10*time.Minute)
}
