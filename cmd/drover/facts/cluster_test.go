package facts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// TestDecodeCluster reads conditions as Rancher writes them, and does not change the object.
func TestDecodeCluster(t *testing.T) {
	object := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(`
metadata: {namespace: shop, name: store, generation: 3}
spec:
  kubernetesVersion: v1.36.3+k3s1
  rkeConfig:
    machineGlobalConfig: {kubelet-arg: [max-pods=50], token: 5}
    machinePools: [{name: worker, quantity: 2, workerRole: true, drainBeforeDeleteTimeout: 5m, rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}, machineConfigRef: {kind: XConfig, name: w}}]
status: {observedGeneration: 3, conditions: [{type: Ready, status: "True", lastUpdateTime: ""}, 7, {type: Updated, status: "False", lastTransitionTime: nonsense}]}
`), &object))
	c, err := facts.DecodeCluster(object)
	require.NoError(t, err)
	require.Equal(t, int32(2), *c.Spec.RKEConfig.MachinePools[0].Quantity)
	require.Len(t, c.Status.Conditions, 2)
	require.Len(t, object["status"].(map[string]any)["conditions"], 3)
	_, err = facts.DecodeCluster(map[string]any{"spec": 5})
	require.ErrorContains(t, err, "decoding a Cluster of provisioning.cattle.io")
}
