package account_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/account"
)

func newNetwork() *account.Network {
	return &account.Network{
		Public: netip.MustParsePrefix("198.18.16.0/20"), Private: netip.MustParsePrefix("198.18.144.0/20"),
		Gateway: netip.MustParseAddr("198.18.0.1"),
	}
}

func TestAllocateNeverGivesTheSameTwice(t *testing.T) {
	network := newNetwork()
	seen := map[netip.Addr]bool{}
	for {
		given, err := network.Allocate()
		if err != nil {
			break
		}
		require.False(t, seen[given.Public])
		require.True(t, network.Public.Contains(given.Public))
		require.True(t, network.Private.Contains(given.Private))
		seen[given.Public] = true
	}
	require.Len(t, seen, 15*254)
	network.Release(netip.MustParseAddr("198.18.17.9"))
	given, err := network.Allocate()
	require.NoError(t, err)
	require.Equal(t, "198.18.17.9", given.Public.String())
}

func TestAllocateReusesLateAndRespectsClaims(t *testing.T) {
	network := newNetwork()
	first, err := network.Allocate()
	require.NoError(t, err)
	require.Equal(t, "198.18.17.1", first.Public.String())
	network.Release(first.Public)
	second, err := network.Allocate()
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	network.Claim(netip.MustParseAddr("198.18.17.200"))
	third, err := network.Allocate()
	require.NoError(t, err)
	require.Equal(t, "198.18.17.201", third.Public.String())
}
