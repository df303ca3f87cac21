package admission_test

import (
	"strings"
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
	wrongMachine := pool(namespace, "MachineDeployment", "RKEBootstrapTemplate", "")
	require.NoError(t, unstructured.SetNestedField(wrongMachine.Object, "AcmeMachine", "spec", "template", "spec", "infrastructureRef", "kind"))
	for what, tt := range map[string]struct {
		obj   *unstructured.Unstructured
		group string
	}{
		"ours":                                       {machine(ours, script), ""},
		"another provider's":                         {machine(ref("infrastructure.cluster.x-k8s.io", "VSphereMachine"), ref("bootstrap.cluster.x-k8s.io", "KubeadmConfig")), ""},
		"of a group of its own":                      {machine(ref("infra.acme.example", "AcmeMachine"), script), ""},
		"without a bootstrap config":                 {of("Machine", map[string]any{"clusterName": "one", "infrastructureRef": ours, "bootstrap": map[string]any{"dataSecretName": "x"}}), ""},
		"a driver":                                   {machine(driver, script), "management.cattle.io"},
		"a bootstrap of Kubernetes":                  {machine(ours, ref("apps", "Deployment")), "apps"},
		"a machine for a machine":                    {machine(ref("cluster.x-k8s.io", "Machine"), script), "cluster.x-k8s.io"},
		"an extension":                               {machine(ours, ref("runtime.cluster.x-k8s.io", "ExtensionConfig")), "runtime.cluster.x-k8s.io"},
		"a pool's template":                          {wrongPool, "apiextensions.k8s.io"},
		"a pool":                                     {pool(namespace, "MachineSet", "RKEBootstrapTemplate", ""), ""},
		"a Cluster":                                  {of("Cluster", map[string]any{"infrastructureRef": ref("rke.cattle.io", "RKECluster"), "controlPlaneRef": ref("rke.cattle.io", "RKEControlPlane")}), ""},
		"a Cluster's infrastructure":                 {of("Cluster", map[string]any{"infrastructureRef": driver}), "management.cattle.io"},
		"a Cluster's control plane":                  {of("Cluster", map[string]any{"controlPlaneRef": ref("rbac.authorization.k8s.io", "Role")}), "rbac.authorization.k8s.io"},
		"a Cluster that names no parts":              {of("Cluster", map[string]any{"paused": true}), ""},
		"a Cluster's infrastructure of another kind": {of("Cluster", map[string]any{"infrastructureRef": ref("rke.cattle.io", "RKEBootstrap")}), "rke.cattle.io/RKEBootstrap, which cannot be a part of a Cluster"},
		"a scan":                                     {machine(ref("rke.cattle.io", "ServerScan"), script), "rke.cattle.io/ServerScan, which cannot be a part of a Machine"},
		"a template for a machine":                   {machine(ref("rke-machine.cattle.io", "AcmeMachineTemplate"), script), "rke-machine.cattle.io/AcmeMachineTemplate, which cannot"},
		"a config for a machine":                     {machine(ref("rke-machine-config.cattle.io", "AcmeConfig"), script), "rke-machine-config.cattle.io/AcmeConfig, which cannot"},
		"a template as a bootstrap":                  {machine(ours, ref("rke.cattle.io", "RKEBootstrapTemplate")), "rke.cattle.io/RKEBootstrapTemplate, which cannot"},
		"a machine as a bootstrap":                   {machine(ours, ours), "rke-machine.cattle.io/AcmeMachine, which cannot"},
		"a pool's machine":                           {wrongMachine, "rke-machine.cattle.io/AcmeMachine, which cannot be a part of a MachineDeployment"},
		"a set's bootstrap":                          {pool(namespace, "MachineSet", "RKEBootstrap", ""), "rke.cattle.io/RKEBootstrap, which cannot be a part of a MachineSet"},
	} {
		t.Run(what, func(t *testing.T) {
			err := c.Create(t.Context(), tt.obj)
			if strings.Contains(tt.group, "/") {
				require.ErrorContains(t, err, "a reference names "+tt.group)
				return
			}
			if tt.group == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "a reference names a kind of group "+tt.group+", which contains no provider of Cluster API")
		})
	}
	old.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, c.Update(t.Context(), old))
	require.NoError(t, unstructured.SetNestedField(old.Object, "zone", "spec", "failureDomain"))
	require.NoError(t, c.Update(t.Context(), old), "its reference does not change")
	changed := old.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(changed.Object, "other", "spec", "infrastructureRef", "name"))
	require.ErrorContains(t, c.Update(t.Context(), changed), "a reference names a kind of group management.cattle.io")
	require.NoError(t, unstructured.SetNestedMap(changed.Object, ref("rke.cattle.io", "ServerScan"), "spec", "infrastructureRef"))
	require.ErrorContains(t, c.Update(t.Context(), changed), "a reference names rke.cattle.io/ServerScan")
	require.NoError(t, unstructured.SetNestedMap(changed.Object, ours, "spec", "infrastructureRef"))
	require.NoError(t, c.Update(t.Context(), changed))
	old = changed
	require.NoError(t, c.Delete(t.Context(), old))
}
