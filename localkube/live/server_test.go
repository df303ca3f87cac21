package live_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One directory through everything that happens to servers.
func TestServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	server := start(t, dir, "--disable", "scheduler", "--kubeconfig", copied)
	info, err := os.Stat(server.Kubeconfig)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, server.kubectl("version"), "Server Version: v1.36.3")
	must(t, "kubectl", "--kubeconfig", copied, "get", "namespaces")
	out, err := run(t, "server", "--data-dir", dir)
	require.Error(t, err)
	require.Contains(t, out, "already runs localkube on "+dir)
	ports, err := os.ReadFile(filepath.Join(dir, "ports.json"))
	require.NoError(t, err)
	server.kubectl("create", "namespace", "kept")
	server.kubectl("wait", "--for=create", "serviceaccount/default", "-n", "kept", "--timeout=30s")

	t.Run("strangers may not read, and roles bind", func(t *testing.T) {
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
	require.NoError(t, server.cmd.Process.Kill())
	_ = server.cmd.Wait() // it was killed

	// The next start does not stumble over what the killed one had, and goes on with its data, identities and ports.
	server = start(t, dir, "--disable", "scheduler,controller-manager")
	server.kubectl("get", "namespace", "kept")
	must(t, "kubectl", "--kubeconfig", copied, "get", "namespace", "kept")
	again, err := os.ReadFile(filepath.Join(dir, "ports.json"))
	require.NoError(t, err)
	require.Equal(t, ports, again)

	// A component's end is the end of all, with its reason.
	require.NoError(t, syscall.Kill(server.child("localkube etcd"), syscall.SIGKILL))
	require.Error(t, server.cmd.Wait())
	require.Contains(t, server.log.String(), "\nlocalkube: etcd ended: signal: killed\nlast lines of "+filepath.Join(dir, "logs", "etcd.log")+":\n")

	server = start(t, dir, "--disable", "scheduler,controller-manager")
	must(t, "down", "--data-dir", dir)
	require.NoError(t, server.cmd.Wait(), "who is asked to stop ends well")
	require.Empty(t, processesOf(t, dir))
}

func TestServer_ephemeral_leaves_nothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	server := start(t, dir, "--ephemeral", "--disable", "controller-manager,scheduler")
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, server.cmd.Wait(), "stopping: %s", &server.log)
	require.NoDirExists(t, dir)
}

func TestRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no data dir":   {[]string{"server"}, "--data-dir"},
		"disable":       {[]string{"server", "--data-dir", dir, "--disable", "etcd"}, "only controller-manager and scheduler"},
		"address":       {[]string{"server", "--data-dir", dir, "--bind-address", "x"}, "--bind-address x"},
		"no image":      {[]string{"images", "import", "--data-dir", dir}, "no image archive given"},
		"node, no kcm":  {[]string{"server", "--data-dir", dir, "--node", "--disable", "scheduler"}, "--node needs"},
		"short-lived":   {[]string{"server", "--data-dir", dir, "--node", "--ephemeral"}, "exclude each other"},
		"what is there": {[]string{"server", "--data-dir", filepath.Dir(localkube(t)), "--ephemeral"}, "there is something in it"},
		"etcd":          {[]string{"etcd"}, "usage: localkube etcd CONFIG-FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, tt.args...)
			require.Error(t, err)
			require.Contains(t, out, tt.want)
		})
	}
	must(t, "down", "--data-dir", filepath.Join(dir, "none"))
	require.NotContains(t, must(t, "server", "--help"), "Global Flags", "the components' packages bring flags of their own")
}
