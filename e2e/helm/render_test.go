package helm

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	chartDir  = "../../charts/drover"
	manager   = "../../bin/manager"
	namespace = "team-infra"
	testImage = "registry.example.org/drover:1.2.3"
)

// objects are those of a stream of YAML documents, by kind and name.
func objects(t *testing.T, stream io.Reader) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for decoder := yaml.NewYAMLOrJSONDecoder(stream, 4096); ; {
		obj := unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(obj.Object) == 0 {
			continue
		}
		key := obj.GetKind() + "/" + obj.GetNamespace() + "/" + obj.GetName()
		require.NotContains(t, all, key, "each object is there once")
		all[key] = obj.Object
	}
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartDir)
	require.NoError(t, err)
	return loaded
}

func render(loaded *chart.Chart, values map[string]any) (string, error) {
	release := chartutil.ReleaseOptions{Name: "drover", Namespace: namespace, IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(loaded, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for name, text := range files {
		if filepath.Ext(name) == ".yaml" {
			out.WriteString("---\n" + text + "\n")
		}
	}
	return out.String(), nil
}

func rendered(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	text, err := render(load(t), values)
	require.NoError(t, err)
	return objects(t, strings.NewReader(text))
}

// printed are the objects of `manager manifests`, but the namespace, which helm leaves to --create-namespace.
func printed(t *testing.T, flags ...string) map[string]map[string]any {
	t.Helper()
	if _, err := os.Stat(manager); err != nil {
		t.Skip("bin/manager is not built: run `make build`")
	}
	command := exec.CommandContext(t.Context(), manager, append([]string{"manifests", "--namespace", namespace, "--image", testImage}, flags...)...)
	out, err := command.Output()
	require.NoError(t, err)
	all := objects(t, bytes.NewReader(out))
	delete(all, "Namespace//"+namespace)
	return all
}

func TestChartEqualsManifests(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	pem, err := os.ReadFile("testdata/ca.pem")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(ca, pem, 0o600))
	cases := map[string]struct {
		values map[string]any
		flags  []string
	}{
		"defaults": {},
		"replicas and an external core": {
			values: map[string]any{"replicas": 3, "capi": "external"},
			flags:  []string{"--replicas=3", "--capi=external"},
		},
		"a private registry": {
			values: map[string]any{"imagePullPolicy": "Always", "imagePullSecrets": []any{"one", "two"}},
			flags:  []string{"--image-pull-policy=Always", "--image-pull-secrets=one,two"},
		},
		"nodes of its own": {
			values: map[string]any{
				"nodeSelector": map[string]any{"example.org/role": "infra", "kubernetes.io/os": "linux"},
				"tolerations":  []any{"infra=yes:NoSchedule", "infra:NoExecute", "spot"},
			},
			flags: []string{
				"--node-selector=kubernetes.io/os=linux,example.org/role=infra",
				"--tolerations=infra=yes:NoSchedule,infra:NoExecute,spot",
			},
		},
		"a proxy with a CA": {
			values: map[string]any{"jobs": map[string]any{
				"httpProxy": "http://proxy:3128", "httpsProxy": "http://proxy:3129", "noProxy": "10.0.0.0/8,.example.org", "caBundle": string(pem),
			}},
			flags: []string{
				"--job-http-proxy=http://proxy:3128", "--job-https-proxy=http://proxy:3129", "--job-no-proxy=10.0.0.0/8,.example.org",
				"--job-ca-file=" + ca,
			},
		},
		"agents": {
			values: map[string]any{"agents": map[string]any{"serverURL": "https://drover.example:30345", "nodePort": 30345},
				"webhooks": map[string]any{"apiServerCIDRs": []any{"192.0.2.1/32"}}},
			flags: []string{"--server-url=https://drover.example:30345", "--agents-node-port=30345", "--api-server-cidr=192.0.2.1/32"},
		},
		"webhooks for API servers only": {
			values: map[string]any{"webhooks": map[string]any{"clientCA": string(pem), "apiServerCIDRs": []any{"192.0.2.1/32"}}},
			flags:  []string{"--webhook-client-ca-file=" + ca, "--api-server-cidr=192.0.2.1/32"},
		},
		"another image for Jobs": {
			values: map[string]any{"jobs": map[string]any{"image": "other:1"}},
			flags:  []string{"--machine-image=other:1"},
		},
		"further flags": {
			values: map[string]any{"args": []any{"--v=1", "--job-ttl=1h0m0s"}},
			flags:  []string{"--manager-arg=--v=1", "--manager-arg=--job-ttl=1h0m0s"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"image": testImage}
			maps.Copy(values, c.values)
			fromChart, fromManager := rendered(t, values), printed(t, c.flags...)
			require.ElementsMatch(t, keys(fromManager), keys(fromChart))
			for key, want := range fromManager {
				require.Equal(t, want, fromChart[key], key)
			}
		})
	}
}

func keys(all map[string]map[string]any) []string {
	var out []string
	for key := range all {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func TestChartWithoutImageIsRefused(t *testing.T) {
	_, err := render(load(t), nil)
	require.ErrorContains(t, err, "image must be set")
}

func TestChartCarriesOurCRDs(t *testing.T) {
	var names []string
	for _, crd := range load(t).CRDObjects() {
		for key := range objects(t, bytes.NewReader(crd.File.Data)) {
			names = append(names, key)
		}
	}
	require.ElementsMatch(t, []string{
		"CustomResourceDefinition//nodedrivers.management.cattle.io",
		"CustomResourceDefinition//clusters.management.cattle.io",
		"CustomResourceDefinition//clusters.provisioning.cattle.io",
		"CustomResourceDefinition//rkebootstraps.rke.cattle.io",
		"CustomResourceDefinition//rkebootstraptemplates.rke.cattle.io",
		"CustomResourceDefinition//rkeclusters.rke.cattle.io",
		"CustomResourceDefinition//rkeclustertemplates.rke.cattle.io",
		"CustomResourceDefinition//rkecontrolplanes.rke.cattle.io",
		"CustomResourceDefinition//serverscans.rke.cattle.io",
	}, names)
}

func TestChartPassesHelmLint(t *testing.T) {
	result := lint.All(chartDir, map[string]any{"image": testImage}, namespace, true)
	for _, message := range result.Messages {
		require.Less(t, message.Severity, support.WarningSev, "%s", message)
	}
}
