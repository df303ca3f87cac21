package command_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/listing"
)

// storeCluster is a provisioning Cluster with a server and two workers, one of which is missing.
const storeCluster = `
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: store}
spec:
  kubernetesVersion: v1.36.3+k3s1
  rkeConfig:
    machinePools:
    - {name: server, etcdRole: true, controlPlaneRole: true, machineConfigRef: {kind: DigitaloceanConfig, name: store-server}}
    - {name: worker, workerRole: true, quantity: 2, machineConfigRef: {kind: DigitaloceanConfig, name: store-worker}}
status:
  observedGeneration: 1
  pools:
  - {name: server, wanted: 1, made: 1, ready: 1, upToDate: 1}
  - {name: worker, wanted: 2, made: 1, ready: 0, upToDate: 1}
  conditions:
  - {type: RKECluster, status: "True", reason: Rendered, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: Updated, status: "True", reason: Updated, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}
  - {type: Ready, status: "False", reason: WaitingForMachines, message: "pool worker: 0 of 2 machines are ready", lastTransitionTime: "2026-03-01T11:00:00Z"}
`

func TestClusters(t *testing.T) {
	c := newCluster(t)
	r := c.drover(t, "clusters")
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, "No Clusters found in namespace "+c.namespace+".\n", r.errOut)
	c.apply(t, storeCluster)
	for _, args := range [][]string{{"clusters"}, {"get", "clusters"}, {"clusters", "store"}, {"clusters", "cluster.provisioning.cattle.io/store"}} {
		out := c.ok(t, args...)
		require.Regexp(t, `(?m)^NAME +VERSION +READY +POOLS +UPDATED +AGE +REASON`, out)
		require.Regexp(t, `(?m)^store +v1.36.3\+k3s1 +False +2/3 +True +\S+ +WaitingForMachines$`, out)
	}
	require.Regexp(t, `(?m)^`+c.namespace+` +store `, c.ok(t, "clusters", "-A"))
	require.NotContains(t, c.ok(t, "clusters", "-l", "a=b", "-o", "json"), "store")
	require.Equal(t, "cluster.provisioning.cattle.io/store\n", c.ok(t, "clusters", "-o", "name"))
	var list listing.List[listing.Cluster]
	require.NoError(t, json.Unmarshal([]byte(c.ok(t, "clusters", "-o", "json")), &list))
	require.Equal(t, "pool worker: 0 of 2 machines are ready", list.Items[0].Message)

	require.Equal(t, `no cluster.provisioning.cattle.io "nowhere" in namespace "`+c.namespace+`" (see 'drover clusters -A')`, requireError(t, c.drover(t, "clusters", "nowhere")))
	other := newCluster(t)
	require.Equal(t, `no cluster.provisioning.cattle.io "store" in namespace "`+other.namespace+`"; there is one in namespace `+c.namespace+` (use -n)`,
		requireError(t, other.drover(t, "clusters", "store")))
	other.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: own}, spec: {controlPlaneRef: {apiGroup: x, kind: X, name: x}}}`)
	require.Contains(t, requireError(t, other.drover(t, "clusters", "own")), "; cluster.cluster.x-k8s.io/own exists and has none: change it with kubectl")
	require.Contains(t, requireError(t, c.drover(t, "clusters", "machine/x")), `"machine/x" does not name a cluster.provisioning.cattle.io: write NAME or cluster/NAME`)

	offered, directive := completions(c.drover(t, "__complete", "clusters", ""))
	require.Equal(t, []string{"store"}, offered)
	require.Equal(t, nothing, directive)
}
