package live_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServer_joins_another(t *testing.T) {
	if testing.Short() {
		t.Skip("two servers take half a minute")
	}
	first := filepath.Join(t.TempDir(), "a")
	one := start(t, first, "--node-name", "boss", "--bind-address", "0.0.0.0")
	url := one.logged(t, `join at (https://\S+)`)
	one.kubectl("create", "namespace", "shared")
	t.Run("workers", func(t *testing.T) { workersMayDoWhatNodesMay(t, one) })
	t.Run("refused", func(t *testing.T) { refusedJoins(t, one) })

	second := filepath.Join(t.TempDir(), "b")
	agentToken := filepath.Join(first, "pki", "token-agent")
	out, err := run(t, "server", "--data-dir", second, "--node-name", "b", "--join", url, "--token-file", agentToken)
	require.Error(t, err, "an agent's token makes no server")
	require.Contains(t, out, "401")

	out, err = run(t, "server", "--data-dir", second, "--node-name", "worker", "--join", url, "--token-file", filepath.Join(first, "pki", "token-server"))
	require.Error(t, err, "it has been settled")
	require.Contains(t, out, "--node-name is b in this data directory and cannot become worker")
	third := filepath.Join(t.TempDir(), "c")
	out, err = run(t, "server", "--data-dir", third, "--node-name", "worker", "--join", url, "--token-file", filepath.Join(first, "pki", "token-server"))
	require.Error(t, err, "a node has that name")
	require.Contains(t, out, "403 Forbidden: node name worker belongs to another machine")

	two := start(t, second, "--node-name", "b", "--join", url, "--token-file", filepath.Join(first, "pki", "token-server"))
	two.kubectl("get", "namespace", "shared")
	for _, name := range []string{"ca.crt", "service-account.key"} {
		a, err := os.ReadFile(filepath.Join(first, "pki", name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(second, "pki", name))
		require.NoError(t, err)
		require.Equal(t, a, b, name)
	}
	two.kubectl("create", "namespace", "other")
	one.kubectl("get", "namespace", "other")
}
