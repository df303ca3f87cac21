package endpoint

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShares(t *testing.T) {
	type ask struct {
		from string
		size int64
	}
	for name, c := range map[string]struct {
		capacity, perPeer int64
		asks              []ask
		lost              []int // indexes of asks whose claims were taken away, in order
		refused           []int
	}{
		"room for all":                             {10, 10, []ask{{"a", 5}, {"b", 5}}, nil, nil},
		"more than there is":                       {10, 10, []ask{{"a", 11}}, nil, []int{0}},
		"the heaviest loses its oldest":            {10, 10, []ask{{"a", 4}, {"a", 4}, {"b", 2}, {"c", 2}}, []int{0}, nil},
		"who has more than others loses his own":   {10, 10, []ask{{"a", 5}, {"b", 5}, {"a", 5}}, []int{0}, nil},
		"of equals the oldest goes":                {10, 10, []ask{{"a", 5}, {"b", 5}, {"c", 5}, {"d", 5}}, []int{0, 1}, nil},
		"an address has a limit":                   {10, 2, []ask{{"a", 1}, {"a", 1}, {"a", 1}, {"b", 1}}, []int{0}, nil},
		"who has nothing yet gets what he asks":    {10, 10, []ask{{"a", 5}, {"b", 5}, {"c", 10}}, []int{0, 1}, nil},
		"a stranger among many of one is not hurt": {4, 4, []ask{{"s", 1}, {"a", 1}, {"a", 1}, {"a", 1}, {"a", 1}, {"a", 1}}, []int{1, 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			evictions := 0
			s := newShares(c.capacity, c.perPeer, func() { evictions++ })
			var lost, refused []int
			var claims []*Place
			for i, ask := range c.asks {
				got := s.claim(AddressOf("10.0.0."+string('0'+rune(ask.from[0])%10)+":1"), ask.size, func() { lost = append(lost, i) })
				if got == nil {
					refused = append(refused, i)
				}
				claims = append(claims, got)
			}
			require.Equal(t, c.lost, lost)
			require.Equal(t, c.refused, refused)
			require.Equal(t, len(lost)+len(refused), evictions)
			for _, claim := range claims {
				if claim != nil {
					claim.Leave()
					claim.Leave()
				}
			}
			require.Zero(t, s.used)
			require.Empty(t, s.peers, "nothing is remembered of who has gone")
		})
	}
}

func TestShares_provenAndKept(t *testing.T) {
	var lost []string
	s := newShares(3, 3, func() {})
	take := func(name string) *Place {
		return s.claim(AddressOf("10.0.0.1:1"), 1, func() { lost = append(lost, name) })
	}
	first, second, third := take("kept"), take("proven"), take("new")
	require.True(t, first.keep())
	second.Prove()
	take("newer")
	take("newest")
	require.Equal(t, []string{"new", "newer"}, lost, "who has shown that he is good for something goes last")
	require.False(t, third.keep(), "it is too late")
	require.ErrorIs(t, third.unlessEvicted(func() error { return nil }), errEvicted)
	require.NoError(t, second.unlessEvicted(func() error { return nil }))
	for range 5 {
		take("more").Prove()
	}
	require.NotContains(t, slices.Concat(lost), "kept")
}

func TestAddressOf(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3:4":            "10.1.2.3",
		"[::ffff:10.1.2.3]:4":   "10.1.2.3",
		"[2001:db8::1:2:3:4]:5": "2001:db8::",
		"[fe80::1%eth0]:5":      "fe80::",
	} {
		require.Equal(t, netip.MustParseAddr(want), AddressOf(in), in)
	}
	require.False(t, AddressOf("@").IsValid())
	require.False(t, AddressOf("pipe:1").IsValid())
}
