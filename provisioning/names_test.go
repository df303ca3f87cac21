package provisioning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/provisioning"
)

// collision returns two names of pools whose objects have one name in a Cluster of a long name.
func collision(t *testing.T, cluster string) (first, second string) {
	t.Helper()
	known := map[string]string{}
	for i := range 100_000 {
		pool := fmt.Sprintf("workers-%d", i)
		name := provisioning.Name(cluster, pool)
		require.LessOrEqual(t, len(name), 63)
		if earlier := known[name]; earlier != "" {
			return earlier, pool
		}
		known[name] = pool
	}
	require.Fail(t, "no collision")
	return "", ""
}

// TestRender_collision: of two pools whose objects would have one name, only one is rendered: the one
// that has the MachineDeployment, or else the first. The order of the pools does not decide later.
func TestRender_collision(t *testing.T) {
	name := strings.Repeat("c", 63)
	first, second := collision(t, name)
	input := func() provisioning.Input {
		in := load(t, "testdata/one-pool.yaml")
		in.Cluster.Name = name
		config := in.Pools[in.Cluster.Spec.RKEConfig.MachinePools[0].Name].Config
		for _, pool := range []string{first, second} {
			in.Cluster.Spec.RKEConfig.MachinePools = append(in.Cluster.Spec.RKEConfig.MachinePools,
				provv1.MachinePool{Name: pool, WorkerRole: true, MachineConfigRef: in.Cluster.Spec.RKEConfig.MachinePools[0].MachineConfigRef})
			in.Pools[pool] = provisioning.PoolInput{Config: config}
		}
		return in
	}
	expect := func(in provisioning.Input, rendered, held string) {
		out, err := provisioning.Render(in)
		require.NoError(t, err)
		names := map[string]string{}
		for _, obj := range out.Objects {
			if deployment, ok := obj.(*clusterv1.MachineDeployment); ok {
				require.Empty(t, names[deployment.Name])
				names[deployment.Name] = deployment.Labels[rkev1.MachinePoolLabel]
			}
		}
		require.Equal(t, rendered, names[provisioning.Name(name, first)])
		require.Len(t, out.Findings, 1)
		require.Equal(t, held, out.Findings[0].Pool)
		require.Equal(t, provv1.NameTakenReason, out.Findings[0].Reason)
		require.NotContains(t, out.Keep, provisioning.Name(name, first))
	}
	in := input()
	expect(in, first, second)
	pools := in.Cluster.Spec.RKEConfig.MachinePools
	in = made(t, in)
	pools[1], pools[2] = pools[2], pools[1]
	expect(in, first, second)
	in = input()
	in.Cluster.Spec.RKEConfig.MachinePools[1], in.Cluster.Spec.RKEConfig.MachinePools[2] = in.Cluster.Spec.RKEConfig.MachinePools[2], in.Cluster.Spec.RKEConfig.MachinePools[1]
	expect(in, second, first)

	// The pool that has the MachineDeployment was removed: the other waits for the end of its machines.
	in = made(t, input())
	in.Cluster.Spec.RKEConfig.MachinePools = append(in.Cluster.Spec.RKEConfig.MachinePools[:1:1], in.Cluster.Spec.RKEConfig.MachinePools[2])
	expect(in, "", second)
}
