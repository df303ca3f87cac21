package command_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// withKubeconfig is a cluster whose Cluster store has a kubeconfig: the one of this very API server.
func withKubeconfig(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	content, err := os.ReadFile(c.kubeconfig)
	require.NoError(t, err)
	c.secret(t, "store-kubeconfig", map[string]string{"value": string(content)})
	return c
}

// answers reports that a context of a kubeconfig leads to the cluster; the current one when it is empty.
func (c *cluster) answers(t *testing.T, content []byte, context string) {
	t.Helper()
	raw, err := clientcmd.Load(content)
	require.NoError(t, err)
	config, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	require.NoError(t, err)
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = api.CoreV1().Namespaces().Get(t.Context(), c.namespace, metav1.GetOptions{})
	require.NoError(t, err)
}

func requirePrivate(t *testing.T, path string) []byte {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func TestKubeconfig_written(t *testing.T) {
	c := withKubeconfig(t)
	printed := c.ok(t, "kubeconfig", "store")
	c.answers(t, []byte(printed), "")
	require.Equal(t, printed, c.ok(t, "kubeconfig", "cluster/store"))

	file := filepath.Join(t.TempDir(), "store.yaml")
	for range 2 {
		c.ok(t, "kubeconfig", "store", "--file", file)
		require.Equal(t, printed, string(requirePrivate(t, file)))
	}
	another, err := clientcmd.Load([]byte(printed))
	require.NoError(t, err)
	another.Clusters[c.namespace+"/store"].CertificateAuthorityData = []byte("another's")
	require.NoError(t, clientcmd.WriteToFile(*another, file))
	require.Contains(t, requireError(t, c.drover(t, "kubeconfig", "store", "--file", file)), "holds the kubeconfig of a cluster "+c.namespace+"/store with another authority")
	c.ok(t, "kubeconfig", "store", "--file", file, "--force")
	require.Equal(t, printed, string(requirePrivate(t, file)))
	require.NoError(t, os.WriteFile(file, []byte("the user's own"), 0o600))
	require.Contains(t, requireError(t, c.drover(t, "kubeconfig", "store", "--file", file)), "holds something else")
	c.ok(t, "kubeconfig", "store", "--file", file, "--force")
	c.answers(t, requirePrivate(t, file), c.namespace+"/store")
}

// TestKubeconfig_throughALink: the file that the link names is written, and the link stays.
func TestKubeconfig_throughALink(t *testing.T) {
	c := withKubeconfig(t)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("real", link))
	require.Contains(t, requireError(t, c.drover(t, "kubeconfig", "store", "--file", link)), "following the link "+link)
	require.NoError(t, os.WriteFile(file, []byte("the user's own"), 0o600))
	require.Contains(t, requireError(t, c.drover(t, "kubeconfig", "store", "--file", link)), "holds something else")
	c.ok(t, "kubeconfig", "store", "--file", link, "--force")
	c.answers(t, requirePrivate(t, file), "")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
}

// What the user has stays, whose current context changes only when he says so.
func TestKubeconfig_merged(t *testing.T) {
	c := withKubeconfig(t)
	own := filepath.Join(t.TempDir(), "config")
	const users = "apiVersion: v1\nkind: Config\ncurrent-context: mine\ncontexts: [{name: mine, context: {cluster: k, user: u, namespace: own}}]\n" +
		"clusters: [{name: k, cluster: {server: 'https://192.0.2.1'}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login}}}]\n"
	require.NoError(t, os.WriteFile(own, []byte(users), 0o644))
	t.Setenv("KUBECONFIG", own)
	c.ok(t, "kubeconfig", "store", "--merge")
	config, err := clientcmd.Load(requirePrivate(t, own))
	require.NoError(t, err)
	require.Equal(t, "mine", config.CurrentContext)
	require.Equal(t, "own", config.Contexts["mine"].Namespace)
	require.Equal(t, "login", config.AuthInfos["u"].Exec.Command)
	c.answers(t, requirePrivate(t, own), c.namespace+"/store")

	c.ok(t, "kubeconfig", "store", "--merge", "--switch")
	c.answers(t, requirePrivate(t, own), "")

	config.Clusters[c.namespace+"/store"].CertificateAuthorityData = []byte("another's")
	require.NoError(t, clientcmd.WriteToFile(*config, own))
	require.Contains(t, requireError(t, c.drover(t, "kubeconfig", "store", "--merge")), "with another authority")
	c.ok(t, "kubeconfig", "store", "--merge", "--force")
	c.answers(t, requirePrivate(t, own), c.namespace+"/store")

	other := filepath.Join(t.TempDir(), "other")
	c.ok(t, "kubeconfig", "store", "--merge", "--file", other)
	c.answers(t, requirePrivate(t, other), c.namespace+"/store")

	// The key goes where its user's entry comes from, which is not the file of the context.
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("apiVersion: v1\nkind: Config\nusers: [{name: "+c.namespace+"/store, user: {token: old}}]\n"), 0o644))
	require.NoError(t, os.WriteFile(own, []byte(users), 0o644))
	t.Setenv("KUBECONFIG", own+string(filepath.ListSeparator)+keys)
	c.ok(t, "kubeconfig", "store", "--merge")
	require.Contains(t, string(requirePrivate(t, keys)), "client-key-data")
	requirePrivate(t, own)
}

// A kubeconfig comes from whoever may write Secrets in the cluster's namespace; what it says is obeyed on the user's computer.
func TestKubeconfig_ofOthers(t *testing.T) {
	c := newCluster(t)
	c.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: early}, spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: early}}}`)
	c.secret(t, "evil-kubeconfig", map[string]string{"value": "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {server: 'https://192.0.2.1'}}]\nusers: [{name: u, user: {exec: {command: sh, args: [" + canary + "]}}}]\n"})
	for _, tt := range []struct {
		says string
		args []string
	}{
		{"users[].user.exec: names a command", []string{"evil"}},
		{"the Cluster early has no kubeconfig yet: its control plane writes the Secret early-kubeconfig (see 'drover why cluster/early -n " + c.namespace + "')", []string{"early"}},
		{`no Cluster "none" in namespace`, []string{"none"}},
		{`"md/early" is no Cluster: write NAME or cluster/NAME`, []string{"md/early"}},
	} {
		text := requireError(t, c.drover(t, append([]string{"kubeconfig"}, tt.args...)...))
		require.Contains(t, text, tt.says)
		require.NotContains(t, text, canary)
	}
	require.Contains(t, c.ok(t, "__complete", "kubeconfig", "ea"), "early\n")
	require.Contains(t, c.ok(t, "__complete", "kubeconfig", "cluster/ea"), "cluster/early\n")
	for _, args := range [][]string{{"kubeconfig"}, {"kubeconfig", "a", "b"}, {"kubeconfig", "a", "--switch"}, {"kubeconfig", "a", "--force"}} {
		require.Equal(t, 2, c.drover(t, args...).code, args)
	}
}

// TestKubeconfig_provisioning: a provisioning Cluster is found before its CAPI Cluster exists, and by its name in full.
func TestKubeconfig_provisioning(t *testing.T) {
	c := newCluster(t)
	c.apply(t, storeCluster)
	for _, name := range []string{"store", "cluster/store", "cluster.provisioning.cattle.io/store"} {
		require.Equal(t, "the Cluster store has no kubeconfig yet: its control plane writes the Secret store-kubeconfig (see 'drover why cluster/store -n "+c.namespace+"')",
			requireError(t, c.drover(t, "kubeconfig", name)))
	}
	require.Equal(t, `no Cluster "none" in namespace "`+c.namespace+`" (see 'kubectl get clusters.provisioning.cattle.io,clusters.cluster.x-k8s.io -A')`, requireError(t, c.drover(t, "kubeconfig", "cluster/none")))
	offered, _ := completions(c.drover(t, "__complete", "kubeconfig", "cluster/"))
	require.Equal(t, []string{"cluster/store"}, offered)
}
