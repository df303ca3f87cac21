package provisioning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/provisioning"
)

// renderTarget is the longest time to render 50 pools.
const renderTarget = 5 * time.Millisecond

// BenchmarkRender renders a Cluster with 50 pools that exist. It fails if that takes longer than
// renderTarget.
func BenchmarkRender(b *testing.B) {
	in := load(b, "testdata/workers.yaml")
	pools := &in.Cluster.Spec.RKEConfig.MachinePools
	worker := (*pools)[2]
	for i := range 50 - len(*pools) {
		pool := *worker.DeepCopy()
		pool.Name = fmt.Sprintf("pool-%d", i)
		*pools = append(*pools, pool)
		in.Pools[pool.Name] = in.Pools[worker.Name]
	}
	require.Len(b, in.Cluster.Spec.RKEConfig.MachinePools, 50)
	in = made(b, in)
	_, err := provisioning.Render(in) // what is read once, such as types, is not measured
	require.NoError(b, err)
	for b.Loop() {
		_, err := provisioning.Render(in)
		require.NoError(b, err)
	}
	require.LessOrEqual(b, b.Elapsed()/time.Duration(b.N), renderTarget)
}
