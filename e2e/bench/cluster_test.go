package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

const (
	clusterCostFile = "testdata/cluster-cost.json"
	// clusterWorkers are the machines of which the mean is taken.
	clusterWorkers = 20
	// allowedCluster is by how much it may grow: how often counts and states that change together are written depends on how busy the machine is.
	allowedCluster = 1.25
	// idleAgents is longer than any watch of an agent's, so that each has begun anew.
	idleAgents = 31 * time.Minute
	// allowedIdle are the requests of a machine that has nothing to do, in an hour, its agent's among them: 17 were counted on 2026-11-25.
	allowedIdle = 25
)

// clusterCost is what a machine of a cluster costs.
type clusterCost struct {
	// Join are the requests to the API server by verb and resource, per worker, from its MachineDeployment's replica to all probes healthy: the
	// infra machine's, bootstrap data, the agent's own and the plan's. The sums are those of cost.
	Join map[string]float64
	// IdleWrites are the kinds of writes while nothing happens, of manager and agents.
	IdleWrites int
}

// cluster is a fleet whose machines become a cluster.
type cluster struct {
	*fleet
	name string
}

// newCluster has one server, whose plan is applied.
func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	agentsPort := testkit.FreePort(tb)
	url := "https://127.0.0.1:" + agentsPort
	binaries, err := filepath.Abs("../../bin/share/agents")
	require.NoError(tb, err)
	c := &cluster{fleet: newFleet(tb, "--server-url="+url, "--agents-bind-address=127.0.0.1:"+agentsPort, "--agents-dir="+binaries), name: "one"}
	dir := tb.TempDir()
	c.background(func(ctx context.Context) error {
		return (&agents{server: url, dir: dir}).play(ctx, c.server, c.namespace)
	})
	bootstrap := &rkev1.RKEBootstrapTemplate{ObjectMeta: c.named(c.name)}
	bootstrap.Spec.Template.Spec.ClusterName = c.name
	control := &rkev1.RKEControlPlane{ObjectMeta: c.named(c.name)}
	control.Spec.ClusterName, control.Spec.KubernetesVersion = c.name, "v1.34.1+k3s1"
	c.create(&rkev1.RKECluster{ObjectMeta: c.named(c.name)}, control, bootstrap, c.template(c.name),
		&clusterv1.Cluster{ObjectMeta: c.named(c.name), Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: c.name},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: c.name}}},
		c.deployment("server", 1, rkev1.EtcdRoleLabel, rkev1.ControlPlaneRoleLabel), c.deployment("worker", 0, rkev1.WorkerRoleLabel))
	c.await(1)
	return c
}

// deployment has machines with roles.
func (c *cluster) deployment(name string, replicas int32, roles ...string) client.Object {
	labels := map[string]string{"pool": name, clusterv1.ClusterNameLabel: c.name}
	for _, role := range roles {
		labels[role] = "true"
	}
	return &clusterv1.MachineDeployment{ObjectMeta: c.named(name), Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: c.name, Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: c.name,
			Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrapTemplate", Name: c.name}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachineTemplate", Name: c.name},
		}},
	}}
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
	c.scale("worker", workers)
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
	now := clusterCost{Join: shares(c.join(clusterWorkers), clusterWorkers)}
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
	require.Zero(t, now.IdleWrites, "nothing happens, and yet is written: %v; the manager says: %s", idle, lastLines(c.manager.log.String()))
}

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
