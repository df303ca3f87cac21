package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

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

// The chart and the verb are two ways to say the same, so each is the other's test.
func TestChartSaysTheSameAsManifests(t *testing.T) {
	testCA := string(authorityPEM(t))
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(caFile, []byte(testCA), 0o600))
	for name, tt := range map[string]struct {
		args   []string
		values map[string]any
	}{
		"least": {args: []string{"--machine-image=r/i:1"}, values: map[string]any{"image": "r/i:1"}},
		"most": {
			args: []string{"--machine-image=r/i:1", "--image-pull-policy=Never", "--image-pull-secrets=one", "--replicas=3", "--capi=external",
				"--node-selector=disk=fast", "--tolerations=dedicated=drover:NoSchedule,other", "--job-http-proxy=http://p:1",
				"--job-https-proxy=http://p:2", "--job-no-proxy=x,y", "--job-ca-file=" + caFile,
				"--webhook-client-ca-file=" + caFile, "--api-server-cidr=192.0.2.1/32", "--api-server-cidr=2001:db8::/64",
				"--server-url=https://h:30345", "--agents-node-port=30345", "--manager-arg=--v=1"},
			values: map[string]any{"image": "r/i:1", "imagePullPolicy": "Never", "imagePullSecrets": []any{"one"}, "replicas": 3, "capi": "external",
				"nodeSelector": map[string]any{"disk": "fast"}, "tolerations": []any{"dedicated=drover:NoSchedule", "other"},
				"jobs":     map[string]any{"httpProxy": "http://p:1", "httpsProxy": "http://p:2", "noProxy": "x,y", "caBundle": testCA},
				"webhooks": map[string]any{"clientCA": testCA, "apiServerCIDRs": []any{"192.0.2.1/32", "2001:db8::/64"}},
				"agents":   map[string]any{"serverURL": "https://h:30345", "serviceType": "NodePort", "nodePort": 30345},
				"args":     []any{"--v=1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := manifests(t, tt.args...)
			require.NoError(t, err)
			verb := objects(t, out)
			require.Contains(t, verb, "Namespace drover-system")
			delete(verb, "Namespace drover-system")
			require.Equal(t, verb, objects(t, renderChart(t, tt.values)))
		})
	}
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

// renderChart is as much of helm as the chart uses.
func renderChart(t *testing.T, values map[string]any) string {
	t.Helper()
	chart := filepath.Join("..", "..", "charts", "drover")
	tmpl := template.New("chart").Option("missingkey=zero")
	tmpl.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			out := &strings.Builder{}
			err := tmpl.ExecuteTemplate(out, name, data)
			return strings.Trim(out.String(), "\n"), err
		},
		"nindent": func(n int, text string) string {
			pad := strings.Repeat(" ", n)
			return "\n" + pad + strings.ReplaceAll(text, "\n", "\n"+pad)
		},
		"toYaml": func(v any) (string, error) {
			out, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(out), "\n"), err
		},
		"fromYaml": func(text string) (map[string]any, error) {
			var out map[string]any
			return out, yaml.Unmarshal([]byte(text), &out)
		},
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"fail":       func(message string) (string, error) { return "", fmt.Errorf("%s", message) },
		"regexSplit": func(sep, text string, n int) []string { return strings.SplitN(text, sep, n) },
		"first":      func(list []string) string { return list[0] },
		"last":       func(list []string) string { return list[len(list)-1] },
		"list":       func(items ...any) []any { return items },
		"append":     func(list []any, item any) []any { return append(slices.Clone(list), item) },
		"ternary": func(yes, no any, which bool) any {
			if which {
				return yes
			}
			return no
		},
		"toJson": func(v any) (string, error) {
			out, err := json.Marshal(v)
			return string(out), err
		},
		"dict": func(pairs ...any) map[string]any {
			out := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				out[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return out
		},
	})
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	require.NoError(t, err)
	_, err = tmpl.ParseFiles(paths...)
	require.NoError(t, err)
	data := map[string]any{"Values": chartValues(t, chart, values), "Release": map[string]any{"Namespace": "drover-system"}, "Files": chartFiles(chart)}
	out := &strings.Builder{}
	for _, path := range paths {
		if filepath.Ext(path) == ".yaml" {
			out.WriteString("\n---\n")
			require.NoError(t, tmpl.ExecuteTemplate(out, filepath.Base(path), data))
		}
	}
	return out.String()
}

// What the manager or the API server would refuse later is refused when it is printed.
func TestManifests_agents(t *testing.T) {
	for want, args := range map[string][]string{
		"--server-url is not of the form https://host or https://host:port":       {"--server-url=http://h"},
		"--agents-service-type=Node is none of ClusterIP, NodePort, LoadBalancer": {"--server-url=https://h", "--agents-service-type=Node"},
		"--agents-node-port needs --agents-service-type NodePort or LoadBalancer": {"--server-url=https://h", "--agents-service-type=ClusterIP", "--agents-node-port=30345"},
		"--agents-node-port=-1 is no port":                                        {"--server-url=https://h", "--agents-service-type=NodePort", "--agents-node-port=-1"},
		"--agents-service-type and --agents-node-port need --server-url":          {"--agents-service-type=LoadBalancer"},
		"--server-url=https://127.0.0.1:1 is each server itself":                  {"--server-url=https://127.0.0.1:1"},
		"--server-url=https://localhost is each server itself":                    {"--server-url=https://localhost"},
		"--server-url=https://[::] is each server itself":                         {"--server-url=https://[::]"},
	} {
		_, err := manifests(t, append([]string{"--machine-image=x"}, args...)...)
		require.ErrorContains(t, err, want)
	}
}

func chartValues(t *testing.T, chart string, values map[string]any) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &all))
	for key, value := range values {
		require.Contains(t, all, key, "values.yaml lists every value")
		all[key] = value
	}
	return all
}

// chartFiles is helm's .Files.
type chartFiles string

// Get reads a file of the chart.
func (c chartFiles) Get(name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(string(c), name))
	return string(data), err
}
