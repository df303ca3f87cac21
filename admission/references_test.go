package admission_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

// What names a kind of no provider is refused; what is there already can be labelled and let go.
func TestReferences(t *testing.T) {
	namespace := testkit.Namespace(t)
	ref := func(group, kind string) map[string]any {
		return map[string]any{"apiGroup": group, "kind": kind, "name": "x"}
	}
	of := func(kind string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
			"metadata": map[string]any{"namespace": namespace, "generateName": "m-"}, "spec": spec}}
	}
	machine := func(infrastructure, config map[string]any) *unstructured.Unstructured {
		return of("Machine", map[string]any{"clusterName": "one", "infrastructureRef": infrastructure, "bootstrap": map[string]any{"configRef": config}})
	}
	ours, script, driver := ref("rke-machine.cattle.io", "AcmeMachine"), ref("rke.cattle.io", "RKEBootstrap"), ref("management.cattle.io", "NodeDriver")
	old := machine(driver, script)
	c := withClusterAPI(t, old)
	awaitRefusal(t, func() error { return c.Create(t.Context(), machine(driver, script), client.DryRunAll) })
	wrongPool := pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", "")
	require.NoError(t, unstructured.SetNestedField(wrongPool.Object, "apiextensions.k8s.io", "spec", "template", "spec", "infrastructureRef", "apiGroup"))
	for what, tt := range map[string]struct {
		obj   *unstructured.Unstructured
		group string
	}{
		"ours":                          {machine(ours, script), ""},
		"another provider's":            {machine(ref("infrastructure.cluster.x-k8s.io", "VSphereMachine"), ref("bootstrap.cluster.x-k8s.io", "KubeadmConfig")), ""},
		"of a group of its own":         {machine(ref("infra.acme.example", "AcmeMachine"), script), ""},
		"without a bootstrap config":    {of("Machine", map[string]any{"clusterName": "one", "infrastructureRef": ours, "bootstrap": map[string]any{"dataSecretName": "x"}}), ""},
		"a driver":                      {machine(driver, script), "management.cattle.io"},
		"a bootstrap of Kubernetes":     {machine(ours, ref("apps", "Deployment")), "apps"},
		"a machine for a machine":       {machine(ref("cluster.x-k8s.io", "Machine"), script), "cluster.x-k8s.io"},
		"an extension":                  {machine(ours, ref("runtime.cluster.x-k8s.io", "ExtensionConfig")), "runtime.cluster.x-k8s.io"},
		"a pool's template":             {wrongPool, "apiextensions.k8s.io"},
		"a pool":                        {pool(namespace, "MachineSet", "RKEBootstrapTemplate", ""), ""},
		"a Cluster":                     {of("Cluster", map[string]any{"infrastructureRef": ref("rke.cattle.io", "RKECluster"), "controlPlaneRef": ref("rke.cattle.io", "RKEControlPlane")}), ""},
		"a Cluster's infrastructure":    {of("Cluster", map[string]any{"infrastructureRef": driver}), "management.cattle.io"},
		"a Cluster's control plane":     {of("Cluster", map[string]any{"controlPlaneRef": ref("rbac.authorization.k8s.io", "Role")}), "rbac.authorization.k8s.io"},
		"a Cluster that names no parts": {of("Cluster", map[string]any{"paused": true}), ""},
	} {
		t.Run(what, func(t *testing.T) {
			err := c.Create(t.Context(), tt.obj)
			if tt.group == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "a reference names a kind of group "+tt.group+", which contains no provider of Cluster API")
		})
	}
	old.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, c.Update(t.Context(), old))
	require.NoError(t, c.Delete(t.Context(), old))
}
