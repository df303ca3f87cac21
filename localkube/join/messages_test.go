package join

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerRequest_Validate(t *testing.T) {
	const notURL = " is not a peer URL like https://198.18.0.2:2380"
	for name, tc := range map[string]struct {
		req  ServerRequest
		want string
	}{
		"IPv4":             {ServerRequest{"two", "https://198.18.0.2:2380"}, ""},
		"IPv6":             {ServerRequest{"two", "https://[2001:db8::2]:2380"}, ""},
		"no URL":           {ServerRequest{"two", ""}, "the peer URL is missing"},
		"plain":            {ServerRequest{"two", "http://198.18.0.2:2380"}, `"http://198.18.0.2:2380"` + notURL},
		"no port":          {ServerRequest{"two", "https://198.18.0.2"}, `"https://198.18.0.2"` + notURL},
		"port 0":           {ServerRequest{"two", "https://198.18.0.2:0"}, `"https://198.18.0.2:0"` + notURL},
		"everywhere":       {ServerRequest{"two", "https://0.0.0.0:2380"}, `"https://0.0.0.0:2380"` + notURL},
		"a path":           {ServerRequest{"two", "https://198.18.0.2:2380/x"}, `"https://198.18.0.2:2380/x"` + notURL},
		"a user":           {ServerRequest{"two", "https://u:p@198.18.0.2:2380"}, `"https://u:p@198.18.0.2:2380"` + notURL},
		"one member more":  {ServerRequest{"two", "https://198.18.0.2:1,x=https://198.18.0.3:1"}, `"https://198.18.0.2:1,x=https://198.18.0.3:1"` + notURL},
		"a member as name": {ServerRequest{"x=https://a,two", "https://198.18.0.2:2380"}, `"x=https://a,two" is not a node name: a lowercase RFC 1123 subdomain`},
	} {
		t.Run(name, func(t *testing.T) { requireError(t, tc.want, tc.req.Validate()) })
	}
}

func TestAgentRequest_Validate(t *testing.T) {
	const noIP = "the node's address is not an IP address"
	for name, tc := range map[string]struct {
		req  AgentRequest
		want string
	}{
		"good":           {AgentRequest{NodeName: "two", Address: "198.18.0.2"}, ""},
		"no address":     {AgentRequest{NodeName: "two"}, noIP},
		"with port":      {AgentRequest{NodeName: "two", Address: "198.18.0.2:10250"}, noIP},
		"host name":      {AgentRequest{NodeName: "two", Address: "two.example"}, noIP},
		"no name":        {AgentRequest{Address: "198.18.0.2"}, `"" is not a node name: `},
		"capitals":       {AgentRequest{NodeName: "Two", Address: "198.18.0.2"}, `"Two" is not a node name: `},
		"another's user": {AgentRequest{NodeName: "x:admin", Address: "198.18.0.2"}, `"x:admin" is not a node name: `},
		"long":           {AgentRequest{NodeName: strings.Repeat("a", 254), Address: "198.18.0.2"}, "must be no more than 253"},
	} {
		t.Run(name, func(t *testing.T) { requireError(t, tc.want, tc.req.Validate()) })
	}
}

func requireError(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}
