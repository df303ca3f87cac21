package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/edits"
)

const (
	clusterCostFile = "testdata/cluster-cost.json"
	// clusterWorkers are the machines of which the mean is taken.
	clusterWorkers = 20
	// allowedCluster is by how much it may grow: how often counts and states that change together are written depends on how busy the machine is.
	allowedCluster = 1.25
	// idleAgents is longer than any watch of an agent's, so that each has begun anew.
	idleAgents = 31 * time.Minute
	// allowedOwn are the writes for the objects of a Cluster with one server: 37 were counted on 2026-11-28, and 30 are the target.
	allowedOwn = 40
	// allowedIdle are the requests of a machine that has nothing to do, in an hour, its agent's among them: 17 were counted on 2026-11-25.
	allowedIdle = 25
)

// clusterCost is what a machine of a cluster costs.
type clusterCost struct {
	// Own are the writes of our objects for the Cluster as a whole, by verb and resource, from its creation
	// until it has one Ready server.
	Own map[string]float64
	// Join are the requests to the API server by verb and resource, per worker, from its MachineDeployment's replica to all probes healthy: the
	// infra machine's, bootstrap data, the agent's own and the plan's. The sums are those of cost.
	Join map[string]float64
	// IdleWrites are the kinds of writes while nothing happens, of manager and agents.
	IdleWrites int
}

// cluster is a provisioning Cluster with one server, and a pool of workers.
type cluster struct {
	*provisioned
	world *edits.World
	// made are the requests from the Cluster to its Ready server.
	made requests
}

// newCluster has one server, whose plan is applied, and no worker.
func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	c := &cluster{provisioned: newProvisioned(tb)}
	c.world = c.provisioned.world()
	pools := &c.world.Cluster.Spec.RKEConfig.MachinePools
	*pools = (*pools)[:2]
	(*pools)[1].Quantity = new(int32(0))
	c.settle(costQuiet)
	before := c.counter.look()
	c.write(c.world)
	c.endpoint()
	c.settled()
	c.settle(costQuiet)
	c.made = c.counter.look().since(before)
	return c
}

// workers sets the number of workers.
func (c *cluster) workers(count int32) {
	c.Helper()
	c.world.Cluster.Spec.RKEConfig.MachinePools[1].Quantity = &count
	c.write(c.world)
}

// await waits until so many Machines have applied their plan and all their probes are healthy.
func (c *cluster) await(count int) {
	c.Helper()
	testkit.Eventually(c, 5*time.Minute, func() error {
		machines := &clusterv1.MachineList{}
		if err := c.client.List(c.Context(), machines, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		upToDate, waiting := 0, ""
		for _, machine := range machines.Items {
			for _, condition := range machine.Status.Conditions {
				switch {
				case condition.Type != rkev1.ReconciledCondition:
				case condition.Reason == rkev1.UpToDateReason:
					upToDate++
				default:
					waiting = machine.Name + ": " + condition.Reason + ": " + condition.Message
				}
			}
		}
		if upToDate != count {
			return fmt.Errorf("%d of %d machines are up to date; %s; the manager says: %s", upToDate, count, waiting, lastLines(c.manager.log.String()))
		}
		return nil
	})
}

// join has workers join, and returns what was asked for that.
func (c *cluster) join(workers int) requests {
	c.Helper()
	c.settle(costQuiet)
	before := c.counter.look()
	c.workers(int32(workers))
	c.await(1 + workers)
	c.settle(costQuiet)
	return c.counter.look().since(before)
}

// idle is what is asked while nothing happens.
func (c *cluster) idle(d time.Duration) requests {
	c.Helper()
	before := c.counter.look()
	c.pause(d)
	return c.counter.look().since(before)
}

// idleWrites are what is written while nothing happens. What a busy machine has held back for seconds may still come: it comes once, and what is wrong
// comes again.
func (c *cluster) idleWrites() requests {
	c.Helper()
	var idle requests
	for range 3 {
		idle = c.idle(20 * time.Second)
		maps.DeleteFunc(idle, func(key string, _ int) bool { verb, _, _ := strings.Cut(key, " "); return !isWrite(verb) })
		if len(idle) == 0 {
			break
		}
		c.Logf("written late, or for nothing: %v", idle)
	}
	return idle
}

// TestClusterCost fails when a machine of a cluster costs more requests than was written down, or writes while nothing happens.
func TestClusterCost(t *testing.T) {
	c := newCluster(t)
	now := clusterCost{Own: ownWrites(c.made)}
	now.Join = shares(c.join(clusterWorkers), clusterWorkers)
	idle := c.idleWrites()
	now.IdleWrites = len(idle)
	if *update {
		raw, err := json.MarshalIndent(now, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(clusterCostFile, append(raw, '\n'), 0o600))
	}
	raw, err := os.ReadFile(clusterCostFile)
	require.NoError(t, err)
	var before clusterCost
	require.NoError(t, json.Unmarshal(raw, &before))
	for sum, factor := range map[string]float64{"all": allowedAll, "ours": allowedCluster, "writes": allowedCluster} {
		require.LessOrEqual(t, now.Join[sum], before.Join[sum]*factor, "requests per worker that joins, %s%s", sum, grown(before.Join, now.Join))
	}
	require.LessOrEqual(t, now.Own["writes"], float64(allowedOwn), "writes for the Cluster's own objects: %v", now.Own)
	require.Zero(t, now.IdleWrites, "nothing happens, and yet is written: %v; the manager says: %s", idle, lastLines(c.manager.log.String()))
}

// ownWrites are the writes of the objects that exist once for each Cluster.
func ownWrites(made requests) map[string]float64 {
	own := map[string]float64{}
	for key, n := range made {
		verb, what, _ := strings.Cut(key, " ")
		resource, _, _ := strings.Cut(what, " ")
		resource, _, _ = strings.Cut(resource, "/")
		if isWrite(verb) && slices.Contains(ownResources, resource) && !strings.Contains(key, " as capi-") {
			own[key] = float64(n)
			own["writes"] += float64(n)
		}
	}
	return own
}

// ownResources exist once for each Cluster or pool. The Secrets of a Cluster are left out: a machine has
// Secrets, too.
var ownResources = []string{"clusters.provisioning.cattle.io", "clusters.management.cattle.io", "rkeclusters", "rkecontrolplanes", "rkebootstraptemplates",
	"digitaloceanconfigs", "digitaloceanmachinetemplates", "machinehealthchecks"}

// BenchmarkCluster prints what a worker costs until it is up to date, and what a machine costs when nothing happens, agents included. It fails when anything is written
// then, or more is asked than allowedIdle.
func BenchmarkCluster(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		began := time.Now()
		made := c.join(clusterWorkers)
		report(b, float64(clusterWorkers)/(time.Since(began)-costQuiet).Seconds(), "workers/s")
		objects, _ := made.writes()
		report(b, float64(objects)/clusterWorkers, "writes/worker")
		printRequests(os.Stderr, "from a worker's replica to all its probes healthy", made, clusterWorkers)
		idle := c.idle(idleAgents)
		objects, events := idle.writes()
		perHour := float64(time.Hour) / float64(idleAgents) / (1 + clusterWorkers)
		report(b, float64(objects+events)*perHour, "writes/idle-machine-hour")
		report(b, float64(idle.sum())*perHour, "requests/idle-machine-hour")
		printRequests(os.Stderr, fmt.Sprintf("while nothing happens, %s", idleAgents), idle, 1+clusterWorkers)
		require.Zero(b, objects+events, "writes while nothing happens")
		require.LessOrEqual(b, float64(idle.sum())*perHour, float64(allowedIdle), "requests of a machine in an hour while nothing happens")
	}
}
