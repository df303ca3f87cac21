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

// TestClusterTemplates: what `clusterctl generate cluster` prints of each flavour is taken by the API server, to the last field.
func TestClusterTemplates(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	core, err := capi.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, append(append(crds, core...), kubeadmKinds(t)...)...)
	templates, err := filepath.Glob(filepath.Join("clusterctl", "cluster-template*.yaml"))
	require.NoError(t, err)
	require.Len(t, templates, 6)
	for _, path := range templates {
		flavour := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".yaml"), "cluster-template")
		name := strings.TrimPrefix(flavour, "-")
		if name == "" {
			name = "digitalocean"
		}
		t.Run(name, func(t *testing.T) {
			flags, ok := driver.Builtin(name)
			require.True(t, ok)
			fields, err := crdgen.FieldsOf(name, flags, crdgen.Rules{})
			require.NoError(t, err)
			_, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
			require.NoError(t, err)
			testkit.ApplyCRDs(t, template, machine)
			c, ns := testkit.Client(t, nil), testkit.Namespace(t)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			text = generate(text, map[string]string{"CLUSTER_NAME": "one", "KUBERNETES_VERSION": "v1.36.0", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "2",
				"CONTROL_PLANE_ENDPOINT_HOST": "api.example.org"})
			documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
			count := 0
			for {
				obj := &unstructured.Unstructured{}
				err := documents.Decode(obj)
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				obj.SetNamespace(ns)
				require.NoError(t, c.Create(t.Context(), obj, &client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: "Strict"}}), obj.GetKind())
				count++
			}
			require.Equal(t, 7, count)
		})
	}
}
