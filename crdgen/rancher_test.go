package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/crdgen"
)

// What `kubectl get -o yaml` prints of Rancher's objects is taken as kubectl sends it, which lets no unknown field through: conditions have a
// lastUpdateTime and no reason there, and Rancher's VmwarevsphereConfig has common and providerID.
func TestServerTakesWhatRancherExports(t *testing.T) {
	client := installDrivers(t, "digitalocean", "vmwarevsphere")
	for name, text := range map[string]string{
		"a machine": `
apiVersion: rke-machine.cattle.io/v1
kind: DigitaloceanMachine
metadata: {name: exported, labels: {rke.cattle.io/capi-machine-name: exported}}
spec: {region: nyc3, sshPort: "22", monitoring: false, common: {cloudCredentialSecretName: "cattle-global-data:cc-x7k2p", labels: {a: b}}, providerID: "digitalocean://1"}
status:
  addresses: [{address: 198.18.0.9, type: InternalIP}]
  cloudCredentialSecretName: cattle-global-data:cc-x7k2p
  conditions:
  - {lastUpdateTime: "2026-01-01T00:00:00Z", status: "True", type: CreateJob}
  - {lastUpdateTime: "2026-01-01T00:00:00Z", message: waiting, status: "False", type: Ready}
  driverHash: ""
  driverUrl: ""
  initialization: {provisioned: true}
  jobName: exported-machine-provision
  ready: true
`,
		"a config": `
apiVersion: rke-machine-config.cattle.io/v1
kind: VmwarevsphereConfig
metadata: {name: nc-pool1-x7k2p, annotations: {field.cattle.io/creatorId: user-x7k2p}}
common: {cloudCredentialSecretName: "", labels: null, taints: []}
providerID: ""
os: linux
cpuCount: "2"
diskSize: "20000"
network: [VM Network]
cfgparam: [disk.enableUUID=TRUE]
`,
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
			gvk := u.GroupVersionKind()
			plural := crdgen.CRDName(gvk.Group, gvk.Kind)
			resource := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural[:len(plural)-len(gvk.Group)-1]}
			_, err := client.Resource(resource).Namespace("default").Create(t.Context(), u,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			require.NoError(t, err)
		})
	}
}
