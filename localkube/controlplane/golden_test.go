package controlplane_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/localkube/controlplane"
	"github.com/drover-project/drover/localkube/process"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a golden file; the data directory is written as DATA.
func golden(t *testing.T, o controlplane.Options, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, o.Dir.Root(), "DATA")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func command(spec process.Spec) string {
	return strings.Join(append([]string{spec.Path}, spec.Args...), "\n") + "\n"
}

func TestComponents(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	etcd, err := o.Etcd()
	require.NoError(t, err)
	for _, tt := range []struct {
		spec    process.Spec
		name    string
		restart bool
	}{
		{etcd, controlplane.EtcdName, false},
		{o.APIServer(), controlplane.APIServerName, false},
		{o.ControllerManager(), controlplane.ControllerManagerName, true},
		{o.Scheduler(), controlplane.SchedulerName, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			golden(t, o, tt.name+".args", command(tt.spec))
			require.Equal(t, tt.name, tt.spec.Name)
			require.Equal(t, tt.name, tt.spec.Args[0], "the verb of the same executable")
			require.Equal(t, process.Self, tt.spec.Path)
			require.Equal(t, o.Dir.Log(tt.name), tt.spec.Log)
			require.Equal(t, tt.restart, tt.spec.Restart)
		})
	}
}

func TestEtcd_configuration(t *testing.T) {
	o := options(t, "0.0.0.0", "198.18.0.9")
	golden(t, o, "etcd.json", etcdConfig(t, o))
	o.NoFsync = true
	require.Contains(t, etcdConfig(t, o), `"unsafe-no-fsync": true`)
}

func TestIssueIdentities(t *testing.T) {
	o := options(t, "127.0.0.1", "127.0.0.1")
	require.NoError(t, o.IssueIdentities())
	for component, user := range map[string]string{
		"controller-manager": "system:kube-controller-manager", "scheduler": "system:kube-scheduler",
	} {
		cfg, err := clientcmd.LoadFromFile(o.Dir.Path("kubeconfigs", component+".kubeconfig"))
		require.NoError(t, err)
		require.Equal(t, user, cfg.Contexts[cfg.CurrentContext].AuthInfo)
	}
	o.Config.ServiceCIDR = "x"
	require.ErrorContains(t, o.IssueIdentities(), "reading service range")
}

func TestWriteAdminKubeconfig(t *testing.T) {
	o := options(t, "127.0.0.1", "127.0.0.1")
	first, second := o.Dir.Kubeconfig(), filepath.Join(t.TempDir(), "new", "kubeconfig")
	require.ErrorContains(t, o.WriteAdminKubeconfig(first), "reading certificate of localkube-admin", "identities come first")
	require.NoError(t, o.IssueIdentities())
	require.NoError(t, o.WriteAdminKubeconfig(first, second))
	for _, path := range []string{first, second} {
		cfg, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		require.Equal(t, o.URL(), cfg.Host)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it makes its reader the administrator")
	}
}
