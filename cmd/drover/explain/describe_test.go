package explain_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// described is a Cluster and the reports about its parts.
type described struct {
	tree  *facts.ClusterTree
	found explain.Findings
}

// store is Cluster store of namespace shop with a server pool and a worker pool.
func store(conditions ...metav1.Condition) *described {
	c := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "store", Generation: 1, CreationTimestamp: ago(time.Hour)}}
	c.Spec.KubernetesVersion = "v1.36.3+k3s1"
	c.Spec.RKEConfig = &provv1.RKEConfig{MachinePools: []provv1.MachinePool{
		{Name: "server", EtcdRole: true, ControlPlaneRole: true}, {Name: "worker", WorkerRole: true, Quantity: new(int32(2))}}}
	c.Status = provv1.ClusterStatus{ObservedGeneration: 1, Conditions: conditions}
	return &described{
		tree:  &facts.ClusterTree{Now: now, Cluster: c, Deployments: map[string]facts.Object{}},
		found: explain.Findings{Machines: map[string]*explain.Report{}, Deployments: map[string]*explain.Report{}},
	}
}

// pools sets the counters: wanted, made, ready and up to date.
func (d *described) pools(server, worker [4]int32) *described {
	status := func(name string, n [4]int32) provv1.PoolStatus {
		return provv1.PoolStatus{Name: name, Wanted: n[0], Made: n[1], Ready: n[2], UpToDate: n[3]}
	}
	d.tree.Cluster.Status.Pools = []provv1.PoolStatus{status("server", server), status("worker", worker)}
	return d
}

// with adds the machine of a snapshot to a pool.
func (d *described) with(pool, name string, s *facts.Snapshot, report bool) *described {
	one := facts.ClusterMachine{CAPI: s.CAPIMachine, Infra: s.Machine}
	if s.Machine != nil {
		s.Machine.Name, s.Name = name, name
		s.Machine.Labels[rkev1.MachinePoolLabel] = pool
	}
	if s.CAPIMachine != nil {
		s.CAPIMachine.Name = name
		s.CAPIMachine.Labels = map[string]string{rkev1.MachinePoolLabel: pool}
	}
	if len(s.Jobs) > 0 {
		one.Job = &s.Jobs[0]
	}
	r := explained(s, "drover")
	d.tree.Machines = append(d.tree.Machines, one)
	if report && slices.ContainsFunc(explain.Unfinished(d.tree), func(m *facts.ClusterMachine) bool { return m.Name() == name }) {
		d.found.Machines[name] = r
	}
	return d
}

// joined is a machine whose Node is ready.
func joined() *facts.Snapshot {
	s := running()
	s.CAPIMachine.Status.Phase = "Running"
	s.CAPIMachine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "node-1"}
	s.CAPIMachine.Status.Conditions = []metav1.Condition{done(clusterv1.MachineNodeHealthyCondition, "NodeHealthy", 3), done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 3)}
	return s
}

func describedStates() map[string]*described {
	rendered := done(provv1.RKEClusterCondition, provv1.RenderedReason, 50)
	provisioned, updated := done(provv1.ProvisionedCondition, "Provisioned", 40), done(provv1.UpdatedCondition, "Updated", 40)
	machinesUpToDate, ready := done(provv1.MachinesUpToDateCondition, provv1.MachinesUpToDateReason, 40), done(provv1.ReadyCondition, provv1.ReadyReason, 40)
	waits := func(kind, message string) metav1.Condition {
		return condition(kind, metav1.ConditionFalse, provv1.WaitingForMachinesReason, message, 5)
	}
	all := map[string]*described{
		"ready": store(rendered, provisioned, machinesUpToDate, updated, ready).pools([4]int32{1, 1, 1, 1}, [4]int32{1, 1, 1, 1}).
			with("server", "store-server-a", joined(), true).with("worker", "store-worker-a", joined(), true),
		"workers": store(rendered, provisioned, waits(provv1.MachinesUpToDateCondition, "pool worker: 1 of 2 machines are up to date, 1 exist"), updated,
			waits(provv1.ReadyCondition, "pool worker: 1 of 2 machines are up to date, 1 exist")).pools([4]int32{1, 1, 1, 1}, [4]int32{4, 4, 0, 3}).
			with("server", "store-server-a", joined(), true).
			with("worker", "store-worker-a", failed(rkev1.WaitingForRetryReason, rkev1.ClassQuota, "422 creating this/these droplet(s) will exceed your droplet limit"), true).
			with("worker", "store-worker-b", withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, ""), waitingPod("ImagePullBackOff", `Back-off pulling image "registry.example/drover:1"`)), true).
			with("worker", "store-worker-c", deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason, "", 1)), true).
			with("worker", "store-worker-d", running(), false).
			with("old", "store-old-a", joined(), true).
			with("", "store-loose", joined(), true),
		"held": store(rendered, provisioned, machinesUpToDate,
			condition(provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason, "pool server: its machine holds the cluster's data and is kept", 9), ready).
			pools([4]int32{1, 1, 1, 1}, [4]int32{0, 0, 0, 0}),
		"unseen": store(),
	}
	pending := store(rendered, provisioned, condition(provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacementPendingReason,
		"pool worker: 2 machines differ from their Config in region. To replace them: kubectl annotate clusters.provisioning.cattle.io store -n shop --overwrite drover.cattle.io/approve-replacement=abc", 5), updated, ready).
		pools([4]int32{1, 1, 1, 1}, [4]int32{2, 2, 2, 0})
	pending.tree.Cluster.Status.PendingReplacement = &provv1.PendingReplacement{ID: "abc", Pools: []provv1.PendingPool{{Name: "worker", Machines: 2, Changes: []string{"region: nyc3 -> fra1"}}}}
	all["pending"] = pending
	going := store(condition(provv1.RKEClusterCondition, metav1.ConditionFalse, provv1.DeletingReason, "the machines of the cluster are being deleted, and their servers removed", 2),
		condition(provv1.ReadyCondition, metav1.ConditionFalse, provv1.DeletingReason, "the machines of the cluster are being deleted, and their servers removed", 2)).
		pools([4]int32{1, 1, 1, 1}, [4]int32{1, 1, 0, 1}).
		with("server", "store-server-a", deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason, "no record of a server, and this cloud cannot be searched", 3)), true)
	going.tree.Cluster.DeletionTimestamp = &metav1.Time{Time: now}
	all["deleting"] = going
	lost := store(rendered, waits(provv1.ReadyCondition, "pool worker: 0 of 2 machines are up to date, 0 exist")).pools([4]int32{1, 1, 0, 1}, [4]int32{2, 0, 0, 0})
	absent := machine()
	absent.Machine, absent.MissingKind = nil, "DigitaloceanMachine"
	lost.with("server", "store-server-a", absent, true)
	lost.tree.Deployments["worker"] = facts.Object{Kind: "MachineDeployment", Namespace: "shop", Name: "store-worker", Replicas: 2}
	lost.found.Deployments["store-worker"] = explain.Machine(machineSnapshots()["machinedeployment"], "drover")
	lost.tree.Problems = []string{"you lack the right to list digitaloceanmachines"}
	all["lost"] = lost
	return all
}

// TestDescribe: a part that is not ready has one cause and one next step, and a ready part has none.
func TestDescribe(t *testing.T) {
	for name, d := range describedStates() {
		t.Run(name, func(t *testing.T) {
			description := explain.Describe(d.tree, d.found, "drover")
			var out bytes.Buffer
			require.NoError(t, explain.RenderTree(&out, description))
			compare(t, "describe-"+name, out.Bytes())
			for _, pool := range description.Pools {
				for _, m := range pool.Machines {
					require.Equal(t, m.Step == nil, m.Finding == nil, m.Name)
				}
			}
			if description.Phase != provv1.ReadyCondition {
				require.NotNil(t, description.Finding)
				require.NotEmpty(t, description.Finding.Next)
			}
			raw, err := json.Marshal(description)
			require.NoError(t, err)
			require.Contains(t, string(raw), `"kind":"ClusterDescription"`)
		})
	}
}

// TestDescribe_machines: every state of a machine in which drover why names a blocker has a cause and a next step in the tree, too.
func TestDescribe_machines(t *testing.T) {
	var all bytes.Buffer
	snapshots := machineSnapshots()
	for _, name := range slices.Sorted(maps.Keys(snapshots)) {
		s := snapshots[name]
		if s.Machine == nil && s.CAPIMachine == nil {
			continue // no machine is in the tree
		}
		d := store().with("worker", "store-worker-a", s, true)
		described := explain.Describe(d.tree, d.found, "drover")
		described.Steps, described.Finding, described.Pools = nil, nil, described.Pools[1:]
		all.WriteString("# " + name + "\n")
		require.NoError(t, explain.RenderTree(&all, described))
		if m := described.Pools[0].Machines[0]; m.Step != nil {
			require.NotEmpty(t, m.Finding.Cause, name)
			require.NotEmpty(t, m.Finding.Next, name)
		}
	}
	compare(t, "describe-machines", all.Bytes())
}

// TestDescribe_clusters: every reason of a Cluster's conditions that holds it back has a cause and a next step.
func TestDescribe_clusters(t *testing.T) {
	rendered, provisioned, ready := done(provv1.RKEClusterCondition, provv1.RenderedReason, 50), done(provv1.ProvisionedCondition, "Provisioned", 40), done(provv1.ReadyCondition, provv1.ReadyReason, 40)
	no := func(kind, reason, message string) metav1.Condition {
		return condition(kind, metav1.ConditionFalse, reason, message, 5)
	}
	var all bytes.Buffer
	for _, c := range []struct {
		name       string
		conditions []metav1.Condition
	}{
		{"name taken", []metav1.Condition{no(provv1.RKEClusterCondition, provv1.NameTakenReason, "the Cluster store exists and is not this Cluster's"), no(provv1.ReadyCondition, provv1.NameTakenReason, "the Cluster store exists and is not this Cluster's")}},
		{"CAPI Cluster missing", []metav1.Condition{no(provv1.RKEClusterCondition, provv1.CAPIClusterMissingReason, "the CAPI Cluster store is gone"), no(provv1.ReadyCondition, provv1.CAPIClusterMissingReason, "the CAPI Cluster store is gone")}},
		{"external infrastructure", []metav1.Condition{no(provv1.RKEClusterCondition, provv1.ExternalInfrastructureReason, "infrastructureRef names another provider"), no(provv1.ReadyCondition, provv1.ExternalInfrastructureReason, "infrastructureRef names another provider")}},
		{"Config missing", []metav1.Condition{rendered, provisioned, no(provv1.UpdatedCondition, provv1.ConfigMissingReason, "pool worker: the DigitaloceanConfig w does not exist"), ready}},
		{"Config taken", []metav1.Condition{rendered, provisioned, no(provv1.UpdatedCondition, provv1.ConfigTakenReason, "pool worker: the DigitaloceanConfig w belongs to Cluster other"), ready}},
		{"tier unsupported", []metav1.Condition{rendered, provisioned, no(provv1.UpdatedCondition, provv1.TierUnsupportedReason, "pool server: further servers are not yet created"), ready}},
		{"no etcd", []metav1.Condition{rendered, no(provv1.ProvisionedCondition, rkev1.NoEtcdMachineReason, "no pool has the role etcd"), no(provv1.UpdatedCondition, rkev1.NoEtcdMachineReason, "no pool has the role etcd"), no(provv1.ReadyCondition, rkev1.NoEtcdMachineReason, "no pool has the role etcd")}},
		{"configuration", []metav1.Condition{rendered, provisioned, no(provv1.UpdatedCondition, rkev1.ConfigInvalidReason, "machineGlobalConfig.kubelet-arg is not a list"), ready}},
		{"control plane", []metav1.Condition{rendered, no(provv1.ProvisionedCondition, provv1.WaitingForControlPlaneReason, "the control plane has not yet read the current specification"), no(provv1.ReadyCondition, provv1.WaitingForControlPlaneReason, "the control plane has not yet read the current specification")}},
		{"paused", []metav1.Condition{rendered, provisioned, condition(provv1.PausedCondition, metav1.ConditionTrue, "Paused", "the CAPI Cluster is paused: spec.paused is true", 3), ready}},
	} {
		d := store(c.conditions...)
		described := explain.Describe(d.tree, d.found, "drover")
		described.Pools = nil
		all.WriteString("# " + c.name + "\n")
		require.NoError(t, explain.RenderTree(&all, described))
		require.NotEmpty(t, described.Finding.Cause, c.name)
		require.NotEmpty(t, described.Finding.Next, c.name)
	}
	compare(t, "describe-clusters", all.Bytes())
}

// compare compares a text with a golden file.
func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), string(got))
}
