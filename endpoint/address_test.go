package endpoint

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

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
