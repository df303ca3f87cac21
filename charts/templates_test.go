package charts_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

// kubeadmKinds are the CRDs of Cluster API's kubeadm providers, as their module has them.
func kubeadmKinds(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*", "kubeadm", "config", "crd", "bases", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, sigsyaml.Unmarshal(text, crd))
		crd.Spec.Conversion = nil
		crd.Spec.Versions = latestVersion(crd.Spec.Versions)
		crds = append(crds, crd)
	}
	return crds
}

func latestVersion(versions []apiextensionsv1.CustomResourceDefinitionVersion) []apiextensionsv1.CustomResourceDefinitionVersion {
	for _, version := range versions {
		if version.Name == "v1beta2" {
			return []apiextensionsv1.CustomResourceDefinitionVersion{version}
		}
	}
	return nil
}

var variable = regexp.MustCompile(`\$\{([A-Z_]+)(:=([^}]*))?\}`)

// generate fills in a template as `clusterctl generate cluster` does.
func generate(text []byte, values map[string]string) []byte {
	return variable.ReplaceAllFunc(text, func(found []byte) []byte {
		match := variable.FindSubmatch(found)
		if value, ok := values[string(match[1])]; ok {
			return []byte(value)
		}
		if len(match[2]) > 0 {
			return match[3]
		}
		return []byte("some-" + strings.ToLower(strings.ReplaceAll(string(match[1]), "_", "-")))
	})
}

// apply creates what a text has, to the last field, and says how much it was.
func apply(t *testing.T, text []byte) int {
	t.Helper()
	c, ns := testkit.Client(t, nil), testkit.Namespace(t)
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for count := 0; ; count++ {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(obj)
		if errors.Is(err, io.EOF) {
			return count
		}
		require.NoError(t, err)
		obj.SetNamespace(ns)
		require.NoError(t, c.Create(t.Context(), obj, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: "Strict"}}), obj.GetKind())
	}
}

// applyCRDs makes the kinds of Cluster API, of kubeadm's providers and of ours, those of a driver's flags included.
func applyCRDs(t *testing.T, name string, flags []crdgen.Flag) {
	t.Helper()
	crds, err := charts.CRDs()
	require.NoError(t, err)
	core, err := capi.CRDs()
	require.NoError(t, err)
	fields, err := crdgen.FieldsOf(name, flags, crdgen.Rules{})
	require.NoError(t, err)
	_, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, append(append(append(crds, core...), kubeadmKinds(t)...), template, machine)...)
}

// TestClusterTemplates: what `clusterctl generate cluster` prints of each flavour is taken by the API server, to the last field, and
// each Node of it gets a provider ID, without which Cluster API does not find it: kubeadm's by the template, ours by the control plane.
func TestClusterTemplates(t *testing.T) {
	templates, err := filepath.Glob(filepath.Join("clusterctl", "cluster-template*.yaml"))
	require.NoError(t, err)
	require.Len(t, templates, 7)
	for _, path := range templates {
		flavour := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".yaml"), "cluster-template")
		name, version, count, ids := strings.TrimPrefix(flavour, "-"), "v1.36.0", 7, 3
		switch flavour {
		case "":
			name = "digitalocean"
		case "-k3s":
			name, version, count, ids = "digitalocean", "v1.36.0+k3s1", 8, 0
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			flags, ok := driver.Builtin(name)
			require.True(t, ok)
			applyCRDs(t, name, flags)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Len(t, regexp.MustCompile(`name: (provider-id|cloud-provider)`).FindAll(text, -1), ids, "the first server, further ones, workers")
			require.Equal(t, count, apply(t, generate(text, map[string]string{"CLUSTER_NAME": "one", "KUBERNETES_VERSION": version,
				"CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "2", "CONTROL_PLANE_ENDPOINT_HOST": "api.example.org"})))
		})
	}
}

// TestManifestsWithKubeadm: what docs/with-kubeadm.md tells users to apply is taken by the API server, to the last field.
func TestManifestsWithKubeadm(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "with-kubeadm.md"))
	require.NoError(t, err)
	manifests := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, manifests, 2, "DigitalOcean and Hetzner")
	digitalocean, ok := driver.Builtin("digitalocean")
	require.True(t, ok)
	applyCRDs(t, "digitalocean", digitalocean)
	require.Equal(t, 8, apply(t, manifests[0][1]))
	// Those of hetzner 5.0.2, driver/driver.go, that the manifest uses.
	applyCRDs(t, "hetzner", []crdgen.Flag{
		{Name: "hetzner-api-token", Type: crdgen.String}, {Name: "hetzner-image", Type: crdgen.String}, {Name: "hetzner-server-type", Type: crdgen.String},
		{Name: "hetzner-server-location", Type: crdgen.String}, {Name: "hetzner-server-label", Type: crdgen.StringSlice},
	})
	require.Equal(t, 8, apply(t, manifests[1][1]))
}
