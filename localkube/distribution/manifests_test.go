package distribution

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	kubectl "k8s.io/kubectl/pkg/cmd"

	"github.com/drover-project/drover/localkube/config"
)

// TestMain is kubectl, too, as the executable is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Args = os.Args[1:]
		if kubectl.NewDefaultKubectlCommand().Execute() != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestManifests(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "manifests")
	found, err := manifests(folder)
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "rancher"), 0o700))
	for name, content := range map[string]string{"rancher/addons.yaml": "", "a.yml": "kind: A", "b.json": "{}", "c.skip": "x"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	found, err = manifests(folder)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"rancher/addons.yaml": "", "a.yml": "kind: A", "b.json": "{}"}, found)
}

// A service of systemd has no HOME, and its folder is the root directory.
func TestApply_leavesNothingWhereItRuns(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{
			"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
			"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap"}]}`,
		}
		w.Header().Set("Content-Type", "application/json")
		if answers[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	data, here := t.TempDir(), t.TempDir()
	kubeconfig := filepath.Join(data, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte("clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"), 0o600))
	t.Setenv("HOME", "")
	t.Chdir(here)
	m := &machine{Config: &config.Config{DataDir: data, Kubeconfig: kubeconfig}}
	require.ErrorContains(t, m.apply(t.Context(), "a.yaml", ""), "applying a.yaml", "the API has no Secrets")
	left, err := os.ReadDir(here)
	require.NoError(t, err)
	require.Empty(t, left)
	require.DirExists(t, filepath.Join(data, "server", "cache", "discovery"), "it has asked the API")
}
