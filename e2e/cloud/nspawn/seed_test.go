package nspawn

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
	"github.com/drover-project/drover/testkit/golden"
)

func TestSeed(t *testing.T) {
	full := server.Spec{
		Name: "d100000001", Hostname: "web-1", InstanceID: "100000001", Public: netip.MustParseAddr("198.18.1.1"),
		Private: netip.MustParseAddr("198.18.129.1"), IPv6: netip.MustParseAddr("2001:db8:d00d::101"),
		Keys: []string{"ssh-ed25519 AAAA a comment: with colon\n"}, UserData: "#!/bin/sh\necho hello\n",
	}
	login := server.Spec{
		Name: "s0-1", Hostname: "plain", InstanceID: "s0-1", Public: netip.MustParseAddr("198.18.1.2"),
		Keys: []string{"ssh-ed25519 BBBB"}, User: "ops",
	}
	offline := server.Spec{Name: "d1", Hostname: "lost", InstanceID: "1", Public: netip.MustParseAddr("198.18.1.3"), Offline: true}
	for name, spec := range map[string]server.Spec{"full": full, "login": login, "offline": offline} {
		t.Run(name, func(t *testing.T) {
			files, err := seed(spec, netip.MustParseAddr("198.18.0.1"))
			require.NoError(t, err)
			var text strings.Builder
			for _, file := range slices.Sorted(maps.Keys(files)) {
				text.WriteString("-- " + file + " --\n" + files[file])
			}
			golden.Require(t, "testdata/"+name+".txt", text.String())
		})
	}
}

func TestIdentitiesDiffer(t *testing.T) {
	private, public, machineID, err := identity()
	require.NoError(t, err)
	otherPrivate, otherPublic, otherMachineID, err := identity()
	require.NoError(t, err)
	require.NotEqual(t, private, otherPrivate)
	require.NotEqual(t, public, otherPublic)
	require.NotEqual(t, machineID, otherMachineID)
	require.Len(t, strings.TrimSpace(machineID), 32)
	require.Contains(t, public, "ssh-ed25519 ")
}
