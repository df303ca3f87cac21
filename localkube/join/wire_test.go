package join_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
)

var update = flag.Bool("update", false, "write the golden files anew")

// counting is a cluster that bears concurrent callers.
type counting struct{ join.Cluster }

func (counting) AddAgent(_ context.Context, req join.AgentRequest) (join.AgentResponse, error) {
	return join.AgentResponse{Kubelet: req.Kubelet}, nil
}

func isA(err, kind error) bool { return errors.Is(err, kind) }

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

// Machines and servers may be of different versions: what is on the wire stays.
func TestMessages_golden(t *testing.T) {
	for name, message := range map[string]any{
		"agent-request":   join.AgentRequest{NodeName: "worker", Address: "198.18.0.2", Kubelet: []byte("a"), KubeletServing: []byte("b"), Proxy: []byte("c")},
		"agent-response":  join.AgentResponse{Kubelet: []byte("a"), KubeletServing: []byte("b"), Proxy: []byte("c"), APIServer: "https://198.18.0.1:6443", PodCIDR: "198.19.0.0/17", ServiceCIDR: "198.19.128.0/17"},
		"server-request":  join.ServerRequest{Name: "two", PeerURL: "https://198.18.0.2:2380"},
		"server-response": join.ServerResponse{Identities: map[string][]byte{"ca.crt": []byte("a")}, InitialCluster: "two=https://198.18.0.2:2380", PodCIDR: "p", ServiceCIDR: "s"},
		"promote-request": join.PromoteRequest{Name: "two"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(message, "", "  ")
			require.NoError(t, err)
			file := "testdata/" + name + ".golden"
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o700))
				require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got)+"\n")
		})
	}
}

func TestPromoteRequest_Validate(t *testing.T) {
	require.NoError(t, join.PromoteRequest{Name: "two.example"}.Validate())
	for _, bad := range []string{"", "Two", "a b", "a\nb", "../x"} {
		require.ErrorContains(t, join.PromoteRequest{Name: bad}.Validate(), "is not a node name", bad)
	}
}
