package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/testkit"
)

// withClusterAPI is an API server with the kinds of Cluster API that our policies are about, an object that came before those, and the policies.
func withClusterAPI(t *testing.T, before client.Object) client.Client {
	t.Helper()
	applyClusterAPI(t)
	c := testkit.Client(t, clientgoscheme.Scheme)
	// An earlier test's policies count until the API server has heard that they are gone.
	testkit.Eventually(t, time.Minute, func() error { return c.Create(t.Context(), before) })
	enforce(t, c)
	return c
}

// applyClusterAPI installs the kinds of Cluster API that our policies and webhooks check.
func applyClusterAPI(t *testing.T) {
	t.Helper()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, plural := range []string{"clusters", "machines", "machinedeployments", "machinesets", "clusterclasses"} {
		raw, err := os.ReadFile(filepath.Join("..", "capi", "crds", "cluster.x-k8s.io_"+plural+".yaml"))
		require.NoError(t, err, "run make generate")
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(raw, crd))
		crds = append(crds, crd)
	}
	testkit.ApplyCRDs(t, crds...)
}

// pool is a MachineDeployment or MachineSet whose machines are bootstrapped by a template of this kind, with a version or none.
func pool(namespace, kind, bootstrap, version string) *unstructured.Unstructured {
	group := "bootstrap.cluster.x-k8s.io"
	if strings.HasPrefix(bootstrap, "RKE") {
		group = "rke.cattle.io"
	}
	spec := map[string]any{"clusterName": "one", "bootstrap": map[string]any{"configRef": map[string]any{"apiGroup": group, "kind": bootstrap, "name": "x"}},
		"infrastructureRef": map[string]any{"apiGroup": "rke-machine.cattle.io", "kind": "AcmeMachineTemplate", "name": "x"}}
	if version != "" {
		spec["version"] = version
	}
	labels := map[string]any{"pool": "x"}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "generateName": "pool-"},
		"spec": map[string]any{"clusterName": "one", "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": spec}}}}
}

func class(namespace, controlPlane string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
		"metadata": map[string]any{"namespace": namespace, "generateName": "class-"},
		"spec": map[string]any{
			"infrastructure": map[string]any{"templateRef": map[string]any{"apiVersion": "rke.cattle.io/v1", "kind": "RKEClusterTemplate", "name": "x"}},
			"controlPlane":   map[string]any{"templateRef": map[string]any{"apiVersion": "rke.cattle.io/v1", "kind": controlPlane, "name": "x"}}}}}
}

func TestVersions(t *testing.T) {
	namespace := testkit.Namespace(t)
	// One that came before the policy can be edited, and lose its version.
	old := pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", "v1.36.3")
	c := withClusterAPI(t, old)
	awaitRefusal(t, func() error {
		return c.Create(t.Context(), pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", "v1.36.3"), client.DryRunAll)
	})
	for what, tt := range map[string]struct {
		obj  *unstructured.Unstructured
		says string
	}{
		"a pool with a version":          {pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", "v1.36.3"), "remove spec.template.spec.version"},
		"a set with a version":           {pool(namespace, "MachineSet", "RKEBootstrapTemplate", "v1.36.3"), "remove spec.template.spec.version"},
		"a pool without":                 {pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", ""), ""},
		"another provider's pool":        {pool(namespace, "MachineDeployment", "KubeadmConfigTemplate", "v1.36.3"), ""},
		"a class with our control plane": {class(namespace, "RKEControlPlaneTemplate"), "a ClusterClass cannot create an RKEControlPlane"},
		"another's class":                {class(namespace, "KubeadmControlPlaneTemplate"), ""},
	} {
		t.Run(what, func(t *testing.T) {
			err := c.Create(t.Context(), tt.obj)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
	require.NoError(t, unstructured.SetNestedField(old.Object, int64(3), "spec", "replicas"))
	require.NoError(t, c.Update(t.Context(), old))
	changed := old.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(changed.Object, "v1.36.4", "spec", "template", "spec", "version"))
	require.ErrorContains(t, c.Update(t.Context(), changed), "remove spec.template.spec.version")
	unstructured.RemoveNestedField(old.Object, "spec", "template", "spec", "version")
	require.NoError(t, c.Update(t.Context(), old))
}
