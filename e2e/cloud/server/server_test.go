package server_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/cloud/server"
)

func TestSpecIsKeptWithoutUserData(t *testing.T) {
	full := server.Spec{
		Name: "d1", Hostname: "web-1", InstanceID: "1", Public: netip.MustParseAddr("198.18.1.1"),
		Private: netip.MustParseAddr("198.18.129.1"), IPv6: netip.MustParseAddr("2001:db8::1"), Keys: []string{"ssh-ed25519 AAAA"},
		User: "ops", Offline: true, UserData: "password: hidden",
	}
	encoded, err := json.Marshal(full)
	require.NoError(t, err)
	require.Equal(t, `{"name":"d1","hostname":"web-1","instanceID":"1","public":"198.18.1.1","private":"198.18.129.1",`+
		`"ipv6":"2001:db8::1","keys":["ssh-ed25519 AAAA"],"user":"ops","offline":true}`, string(encoded))
	var again server.Spec
	require.NoError(t, json.Unmarshal(encoded, &again))
	full.UserData = ""
	require.Equal(t, full, again)
}

func TestSpecLeavesOutWhatIsNotGiven(t *testing.T) {
	encoded, err := json.Marshal(server.Spec{Name: "d1", Public: netip.MustParseAddr("198.18.1.1")})
	require.NoError(t, err)
	require.Equal(t, `{"name":"d1","hostname":"","instanceID":"","public":"198.18.1.1"}`, string(encoded))
}
