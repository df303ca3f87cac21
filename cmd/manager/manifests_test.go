package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// manifests runs the verb.
func manifests(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := command(func(string) (string, bool) { return "", false })
	out := &bytes.Buffer{}
	cmd.SetOut(out)
	cmd.SetArgs(append([]string{"manifests"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// objects reads a stream of YAML, by kind and name.
func objects(t *testing.T, stream string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for text := range strings.SplitSeq(stream, "\n---") {
		var obj map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(strings.TrimPrefix(text, "---")), &obj), "%s", text)
		if len(obj) > 0 {
			out[fmt.Sprint(obj["kind"], " ", obj["metadata"].(map[string]any)["name"])] = obj
		}
	}
	return out
}

func TestManifests_forClusterctl(t *testing.T) {
	out, err := manifests(t, "--machine-image=x", "--with-crds", "--capi=external")
	require.NoError(t, err)
	for name, obj := range objects(t, out) {
		labels := obj["metadata"].(map[string]any)["labels"].(map[string]any)
		require.Equal(t, "infrastructure-drover", labels["cluster.x-k8s.io/provider"], name)
	}
	require.Contains(t, objects(t, out), "CustomResourceDefinition rkeclusters.rke.cattle.io")

	out, err = manifests(t, "--machine-image=x", "--server-url=${URL:=}", "--agents-service-type=${TYPE:=ClusterIP}")
	require.NoError(t, err)
	filled := objects(t, strings.NewReplacer("${URL:=}", "https://drover.example", "${TYPE:=ClusterIP}", "LoadBalancer").Replace(out))
	out, err = manifests(t, "--machine-image=x", "--server-url=https://drover.example", "--agents-service-type=LoadBalancer")
	require.NoError(t, err)
	require.Equal(t, objects(t, out), filled, "as `clusterctl init` fills it in")
	_, err = manifests(t, "--machine-image=x", "--server-url=${URL:=}x")
	require.ErrorContains(t, err, "--server-url is not of the form")
}

func TestManifests_memoryLimit(t *testing.T) {
	out, err := manifests(t, "--machine-image=x", "--memory-limit=2Gi")
	require.NoError(t, err)
	require.Contains(t, out, "limits:\n            memory: 2Gi\n          requests:\n            cpu: 50m\n            memory: 128Mi\n")
	for _, wrong := range []string{"2 GB", "128Mi", "-1Gi"} {
		_, err = manifests(t, "--machine-image=x", "--memory-limit="+wrong)
		require.ErrorContains(t, err, "--memory-limit="+wrong+": must be a quantity of at least 256Mi, such as 2Gi")
	}
}

// What the manager or the API server would refuse later is refused when it is printed.
func TestManifests_agents(t *testing.T) {
	for want, args := range map[string][]string{
		"--server-url is not of the form https://host or https://host:port":       {"--server-url=http://h"},
		"--agents-service-type=Node must be ClusterIP, NodePort or LoadBalancer":  {"--server-url=https://h", "--agents-service-type=Node"},
		"--agents-node-port needs --agents-service-type NodePort or LoadBalancer": {"--server-url=https://h", "--agents-service-type=ClusterIP", "--agents-node-port=30345"},
		"--agents-node-port=-1 is not a valid port":                               {"--server-url=https://h", "--agents-service-type=NodePort", "--agents-node-port=-1"},
		"--agents-service-type and --agents-node-port need --server-url":          {"--agents-service-type=LoadBalancer"},
		"--server-url=https://127.0.0.1:1 is each server itself":                  {"--server-url=https://127.0.0.1:1"},
		"--server-url=https://localhost is each server itself":                    {"--server-url=https://localhost"},
		"--server-url=https://[::] is each server itself":                         {"--server-url=https://[::]"},
	} {
		_, err := manifests(t, append([]string{"--machine-image=x"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}
