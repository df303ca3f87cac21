package bench

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/testkit/edits"
)

// TestPlan_isTrue makes random edits of a Cluster that runs, and compares each plan of drover with what
// the manager and Cluster API then do: the Machines that are deleted and created, and the stamps in the
// plans of those that stay.
func TestPlan_isTrue(t *testing.T) {
	count := 12
	if os.Getenv("DROVER_SOAK") != "" {
		count = 40
	}
	p := newProvisioned(t)
	world := p.world()
	p.write(world)
	p.endpoint()
	p.settled()
	random := rand.New(rand.NewPCG(40, 1))
	replaced, restarted := 0, 0
	for i := range count {
		next := world.Copy()
		names := edits.Random(random, next)
		predicted := p.plan(next)
		if pending := predicted.PendingReplacement; pending != nil && random.IntN(2) == 0 {
			next.Cluster.Annotations = map[string]string{provv1.ApproveReplacementAnnotation: pending.ID}
			names = append(names, "approval")
			predicted = p.plan(next)
		}
		about := fmt.Sprintf("edit %d: %s", i, strings.Join(names, ", "))
		t.Log(about)
		before := p.machines()
		p.write(next)
		p.settled()
		world = next
		after := p.machines()

		changed := map[string]int32{} // by pool: created and deleted Machines that the plan does not name
		var restarts []string
		for name, m := range after {
			if was, stays := before[name]; !stays {
				changed[m.pool+" created"]++
			} else if was.stamp != m.stamp {
				restarts = append(restarts, name)
			}
		}
		for name, m := range before {
			if _, stays := after[name]; !stays {
				changed[m.pool+" deleted"]++
			}
		}
		for _, pool := range predicted.Pools {
			if pool.NeedsApproval || pool.Paused {
				pool.Replaced = 0
			}
			replaced += int(pool.Replaced)
			changed[pool.Name+" created"] -= pool.Made + pool.Replaced
			changed[pool.Name+" deleted"] -= pool.Removed + pool.Replaced
		}
		for what, n := range changed {
			require.Zero(t, n, "%s: %s: %+v", about, what, predicted)
		}
		restarted += len(restarts)
		require.ElementsMatch(t, restarts, slices.DeleteFunc(predicted.Restarted, func(name string) bool { _, stays := after[name]; return !stays }), "%s: %+v", about, predicted)
	}
	t.Logf("%d machines were replaced, and %d restarted", replaced, restarted)
	require.Positive(t, replaced)
	require.Positive(t, restarted)
}

// plan asks what drover plan shows for a file with the Cluster and its Configs.
func (p *provisioned) plan(w *edits.World) *forecast.Plan {
	p.Helper()
	kube, err := kubernetes.NewForConfig(p.server)
	require.NoError(p, err)
	objects, err := dynamic.NewForConfig(p.server)
	require.NoError(p, err)
	planning, err := inventory.NewPlanning(p.server, &inventory.API{Kube: kube, Dynamic: objects})
	require.NoError(p, err)
	for _, config := range w.Configs {
		answer, err := planning.Give(p.Context(), config.DeepCopy())
		require.NoError(p, err)
		require.Empty(p, answer.Rejected)
	}
	stored, err := planning.Cluster(p.Context(), client.ObjectKeyFromObject(w.Cluster))
	require.NoError(p, err)
	wanted := w.Cluster.DeepCopy()
	wanted.ObjectMeta = *stored.ObjectMeta.DeepCopy()
	maps.Copy(wanted.Annotations, w.Cluster.Annotations)
	sources, err := planning.Sources(p.Context(), stored, wanted)
	require.NoError(p, err)
	predicted, err := forecast.New(sources)
	require.NoError(p, err)
	return predicted
}
