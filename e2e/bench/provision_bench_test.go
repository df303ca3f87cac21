package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/testkit"
)

// provisionTargets are the longest times, on two idle cores, from the Cluster to the last Job that
// creates a machine, and from its deletion until it is gone; by the number of machines. Rancher needs
// 15.6, 17.5 and 25 s, and 12.5 and 31 s.
var provisionTargets = []struct {
	machines      int32
	jobs, deleted time.Duration
}{{1, time.Second, 2 * time.Second}, {10, 2500 * time.Millisecond, 5 * time.Second}, {50, 8 * time.Second, 12 * time.Second}}

// BenchmarkProvision creates a Cluster and deletes it again. It fails if that takes longer than
// provisionTargets.
func BenchmarkProvision(b *testing.B) {
	for _, target := range provisionTargets {
		b.Run(fmt.Sprint(target.machines), func(b *testing.B) {
			for b.Loop() {
				p := newProvisioned(b)
				world := p.world()
				pools := &world.Cluster.Spec.RKEConfig.MachinePools
				*pools = (*pools)[:2]
				(*pools)[1].Quantity = new(target.machines - 1)
				p.settle(costQuiet)

				began := time.Now()
				p.write(world)
				p.endpoint()
				p.awaitJobs(int(target.machines))
				jobs := time.Since(began)
				report(b, jobs.Seconds(), "s-to-all-Jobs")
				p.settled()
				report(b, time.Since(began).Seconds(), "s-to-settled")
				printRequests(os.Stderr, "from the Cluster to Ready machines", p.counter.look(), int(target.machines))

				began = time.Now()
				require.NoError(b, p.client.Delete(b.Context(), &provv1.Cluster{ObjectMeta: p.named(p.name)}))
				testkit.Eventually(b, 5*time.Minute, func() error {
					err := p.client.Get(b.Context(), client.ObjectKey{Namespace: p.namespace, Name: p.name}, &provv1.Cluster{})
					if apierrors.IsNotFound(err) {
						return nil
					}
					return fmt.Errorf("the Cluster is still there: %w", err)
				})
				deleted := time.Since(began)
				report(b, deleted.Seconds(), "s-to-deleted")
				require.LessOrEqual(b, jobs, target.jobs, "from the Cluster to all Jobs")
				require.LessOrEqual(b, deleted, target.deleted, "from the deletion until the Cluster is gone")
			}
		})
	}
}

// awaitJobs waits until so many Jobs that create a machine exist.
func (p *provisioned) awaitJobs(count int) {
	p.Helper()
	testkit.Eventually(p, 2*time.Minute, func() error {
		if made := len(p.watch.between("create Job", "create Job")); made < count {
			return fmt.Errorf("%d of %d Jobs exist; the manager says: %s", made, count, lastLines(p.manager.log.String()))
		}
		return nil
	})
}
