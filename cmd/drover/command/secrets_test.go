package command_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
)

// canary is a secret that must be seen nowhere; its words are such that no encoding of ours changes them.
const canary = "CANARYcanaryCANARY"

// withSecrets is a machine all of whose Secrets hold the canary where secrets belong.
func withSecrets(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, capiMachine)
	c.apply(t, storeCluster)
	c.apply(t, activeDriver)
	c.secret(t, "do-token", map[string]string{"accessToken": canary, "digitaloceancredentialConfig-accessToken": canary})
	c.secret(t, "store-kubeconfig", map[string]string{"value": "token: " + canary})
	c.secret(t, "boot", map[string]string{"value": "#cloud-config\npassword: " + canary, "format": "cloud-config"})
	document, err := json.Marshal(state.Server{InstanceID: "4711", SSHHost: "127.0.0.1", SSHPort: 1, SSHUser: "root"})
	require.NoError(t, err)
	c.secret(t, "web-1-machine-state", map[string]string{
		state.ServerKey: string(document), state.SSHPrivateKeyKey: "-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END OPENSSH PRIVATE KEY-----\n",
		state.SSHPublicKeyKey: "ssh-ed25519 AAAA", state.JournalKey: `{"operation":"create","attempt":1,"phase":"Bootstrapped","instanceName":"web-1"}`,
		state.LogKey: "what the driver said\n", state.ExtractedConfigKey: canary, "driver.json": `{"AccessToken":"` + canary + `"}`,
	})
	return c
}

// TestNoCommandShowsASecret: not on standard output, not in an error, in no format.
func TestNoCommandShowsASecret(t *testing.T) {
	c := withSecrets(t)
	here := t.TempDir()
	file := filepath.Join(here, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	encoded := strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(canary)), "=")
	for _, args := range [][]string{
		{"get"}, {"get", "-o", "wide"}, {"get", "-o", "json"}, {"get", "-o", "yaml"}, {"get", "-o", "go-template={{.}}"},
		{"why", "web-1"}, {"why", "web-1", "-o", "json"}, {"why", "pool-abc", "-o", "yaml"}, {"why", "driver/digitalocean"},
		{"logs", "web-1"}, {"logs", "web-1", "--previous"}, {"ssh", "web-1", "--", "true"}, {"ssh", "web-1", "--accept-new-host-key"},
		{"scp", file, "web-1:"}, {"scp", "web-1:x", here}, {"keys", "web-1", "--dir", here}, {"kubeconfig", "store"}, {"retry", "web-1"}, {"abandon", "web-1", "--yes"},
		{"drivers", "-o", "json"}, {"clusters", "-o", "yaml"}, {"describe", "store"}, {"create", "cluster", "new", "--driver", "digitalocean", "--credential", "do-token", "--dry-run"},
		{"create", "cluster", "new", "--driver", "digitalocean", "--set", "accessToken=" + canary}, {"scale", "store", "worker=3"}, {"wait", "store", "--for", "ready", "--timeout", "10ms"},
		{"describe", "store", "-o", "json"}, {"version"}, {"__complete", "why", ""}, {"__complete", "get", "-o", ""},
	} {
		r := c.drover(t, args...)
		for _, text := range []string{r.out, r.errOut} {
			require.NotContains(t, text, canary, args)
			require.NotContains(t, text, encoded, args)
		}
	}
}

// TestBrokenKey: a key that cannot be used is told of, and neither shown nor written.
func TestBrokenKey(t *testing.T) {
	c := withSecrets(t)
	text := requireError(t, c.drover(t, "ssh", "web-1", "--accept-new-host-key", "--", "true"))
	require.Contains(t, text, "private key")
	r := c.drover(t, "get", "web-1", "-o", "jsonpath={.items[0].address}")
	require.Equal(t, result{out: "198.18.0.11"}, r, "what needs no key still works")
}

// TestKeysAreForTheUserAlone: whatever the umask, nobody else reads the files, and an error leaves none behind.
func TestKeysAreForTheUserAlone(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	dir := t.TempDir()
	require.Contains(t, requireError(t, c.drover(t, "keys", "db-1", "--dir", dir)), "db-1 has no server yet (phase Pending)")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	served, _ := withServer(t, true)
	served.ok(t, "keys", "web-1", "--dir", filepath.Join(dir, "made", "on", "the", "way"))
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "made"), func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}
