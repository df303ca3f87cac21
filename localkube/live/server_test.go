package live_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type status struct {
	Running, Ready bool
	PID            int
	URL            string
}

func readStatus(t *testing.T, dir string) status {
	t.Helper()
	var s status
	require.NoError(t, json.Unmarshal([]byte(must(t, "status", "--data-dir", dir, "-o", "json")), &s))
	return s
}

func TestServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	server := start(t, dir, "--disable", "controller-manager,scheduler")
	first := readStatus(t, dir)
	require.True(t, first.Ready)
	info, err := os.Stat(server.Kubeconfig)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, server.kubectl("version"), "Server Version: v1.36.3")

	t.Run("strangers may not read", func(t *testing.T) {
		require.Equal(t, http.StatusForbidden, getStatus(t, first.URL+"/api/v1/secrets"))
	})
	t.Run("roles bind", func(t *testing.T) {
		server.kubectl("create", "serviceaccount", "reader")
		server.kubectl("create", "role", "reader", "--verb=get", "--resource=pods")
		server.kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader")
		canGet := func(resource string) bool {
			_, err := run(t, "kubectl", "--kubeconfig", server.Kubeconfig, "auth", "can-i", "get", resource,
				"--as=system:serviceaccount:default:reader", "--quiet")
			return err == nil
		}
		// The authoriser learns of the binding by a watch.
		require.Eventually(t, func() bool { return canGet("pods") }, time.Minute, 100*time.Millisecond)
		require.False(t, canGet("secrets"))
	})
	t.Run("one server per data directory", func(t *testing.T) {
		out, err := run(t, "server", "--data-dir", dir)
		require.Error(t, err)
		require.Contains(t, out, "already runs localkube on "+dir)
	})
	t.Run("no second use of its port", func(t *testing.T) {
		out, err := run(t, "server", "--data-dir", filepath.Join(filepath.Dir(dir), "e"), "--https-port", strings.Split(first.URL, ":")[2])
		require.Error(t, err)
		require.Contains(t, out, "localkube: port "+strings.Split(first.URL, ":")[2]+" of 127.0.0.1, for the API server, is in use by another program: "+
			"stop that one, or choose another with --https-port\n")
	})
	must(t, "down", "--data-dir", dir)
	require.NoError(t, server.cmd.Wait(), "who is asked to stop ends well")
	require.False(t, readStatus(t, dir).Running)
}

func getStatus(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	res, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func TestServer_ephemeral_leaves_nothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	server := start(t, dir, "--ephemeral", "--disable", "controller-manager,scheduler")
	server.stop()
	require.NoDirExists(t, dir)
}

func TestServer_bad_input(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no data dir":  {[]string{"server"}, "--data-dir"},
		"disable":      {[]string{"server", "--data-dir", dir, "--disable", "etcd"}, "only controller-manager and scheduler"},
		"range":        {[]string{"server", "--data-dir", dir, "--pod-cidr", "x"}, "invalid CIDR"},
		"address":      {[]string{"server", "--data-dir", dir, "--bind-address", "x"}, "--bind-address x"},
		"half a join":  {[]string{"server", "--data-dir", dir, "--join", "https://x"}, "belong together"},
		"bad token":    {[]string{"agent", "--data-dir", dir, "--server", "https://127.0.0.1:1", "--token", "x"}, "lk1."},
		"images":       {[]string{"images", "import", "x", "--data-dir", filepath.Join(dir, "none")}, "does not exist"},
		"status form":  {[]string{"status", "--data-dir", dir, "-o", "toml"}, "json is the only one"},
		"node, no kcm": {[]string{"server", "--data-dir", dir, "--node", "--disable", "scheduler"}, "--node needs"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tt.args...)
			require.Error(t, err)
			require.Contains(t, out, tt.want)
		})
	}
	must(t, "down", "--data-dir", filepath.Join(dir, "none"))
}
