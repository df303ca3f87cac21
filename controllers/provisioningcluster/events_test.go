package provisioningcluster_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/testkit"
)

// recorded is a world whose events are kept.
type recorded struct {
	*world

	recorder *events.FakeRecorder
}

func record(t *testing.T, change func(*provv1.Cluster)) *recorded {
	t.Helper()
	w := newWorld(t, change)
	r := &recorded{world: w, recorder: events.NewFakeRecorder(100)}
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.client, Reader: w.client, Recorder: r.recorder})
	return r
}

// said reconciles twice, requires that the second reconcile writes no event, and returns the events
// of the first.
func (r *recorded) said(t *testing.T) []string {
	t.Helper()
	r.reconcile(t)
	said := r.drain()
	r.reconcile(t)
	require.Empty(t, r.drain(), "nothing changed, nothing is said")
	return said
}

func (r *recorded) drain() []string {
	var said []string
	for {
		select {
		case event := <-r.recorder.Events:
			said = append(said, event)
		default:
			return said
		}
	}
}

func (r *recorded) resize(t *testing.T, pool, size string) {
	t.Helper()
	config := testkit.ExpectExists(t, r.client, r.config(pool, ""))
	config.Object["size"] = size
	require.NoError(t, r.client.Update(t.Context(), config))
}

func (r *recorded) edit(t *testing.T, change func(*provv1.Cluster)) {
	t.Helper()
	change(r.cluster)
	require.NoError(t, r.client.Update(t.Context(), r.cluster))
}

// counts sets the numbers of a MachineDeployment as Cluster API does.
func (r *recorded) counts(t *testing.T, name string, made, upToDate int32) {
	t.Helper()
	deployment := r.deployment(t, name)
	before := deployment.DeepCopy()
	deployment.Status.ObservedGeneration = deployment.Generation
	deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas, deployment.Status.UpToDateReplicas = &made, &made, &made, &upToDate
	require.NoError(t, r.client.Status().Patch(t.Context(), deployment, client.MergeFrom(before)))
}

// set creates a MachineSet of a MachineDeployment, with machines of its present template.
func (r *recorded) set(t *testing.T, deployment, name string, machines int32) *clusterv1.MachineSet {
	t.Helper()
	of := r.deployment(t, deployment)
	set := &clusterv1.MachineSet{ObjectMeta: r.named(name), Spec: clusterv1.MachineSetSpec{ClusterName: "one", Replicas: &machines, Selector: of.Spec.Selector, Template: of.Spec.Template}}
	set.Labels = of.Spec.Template.Labels
	require.NoError(t, r.client.Create(t.Context(), set))
	return set
}

// TestEvents_replacement: a replacement is announced and ends with an event.
func TestEvents_replacement(t *testing.T) {
	r := record(t, nil)
	require.Equal(t, []string{"Normal Rendered The objects of Cluster API match the Cluster"}, r.said(t))
	r.counts(t, "one-server", 1, 1)
	r.counts(t, "one-workers", 2, 2)
	older := r.set(t, "one-workers", "one-workers-a", 2)
	require.Empty(t, r.said(t))
	testkit.ExpectCondition(t, r.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionTrue, "")

	r.resize(t, "workers", "s-4vcpu-8gb")
	require.Equal(t, []string{"Normal ReplacementStarted pool workers: 2 machines are replaced, because of: size from s-2vcpu-4gb to s-4vcpu-8gb"}, r.said(t))
	testkit.ExpectCondition(t, r.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacingMachinesReason)
	r.counts(t, "one-workers", 2, 2) // before Cluster API has compared the machines with the new template
	require.Empty(t, r.said(t))
	testkit.ExpectCondition(t, r.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacingMachinesReason)
	require.Equal(t, int32(0), r.cluster.Status.Pools[1].UpToDate)
	require.NoError(t, r.client.Delete(t.Context(), older))
	r.counts(t, "one-workers", 1, 1)
	require.Empty(t, r.said(t))
	testkit.ExpectCondition(t, r.cluster, provv1.MachinesUpToDateCondition, metav1.ConditionFalse, provv1.ReplacingMachinesReason)
	r.counts(t, "one-workers", 2, 2)
	require.Equal(t, []string{"Normal ReplacementDone all machines have the options of their Configs"}, r.said(t))
	r.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(3)) })
	require.Empty(t, r.said(t), "a resize is no replacement")
	r.counts(t, "one-workers", 3, 3)
	require.Empty(t, r.said(t))
}

// TestEvents_approval: a replacement that waits is announced for each change, and an approval of another
// is reported.
func TestEvents_approval(t *testing.T) {
	r := record(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineReplacement = provv1.ReplaceOnApproval })
	r.said(t)
	approve := func(id string) {
		r.edit(t, func(c *provv1.Cluster) { c.Annotations[provv1.ApproveReplacementAnnotation] = id })
	}
	r.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].Quantity = new(int32(1)) })
	require.Empty(t, r.said(t))
	r.resize(t, "workers", "s-4vcpu-8gb")
	said := r.said(t)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "Normal ReplacementPending pool workers: 1 machine differs from its Config in size from s-2vcpu-4gb to s-4vcpu-8gb. Approve the replacement: kubectl annotate")
	id := r.cluster.Status.PendingReplacement.ID
	r.resize(t, "workers", "s-8vcpu-16gb")
	said = r.said(t)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "to s-8vcpu-16gb")
	approve(id)
	before := r.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name
	require.Equal(t, []string{"Warning ApprovalIgnored The approval of " + id + " is for an earlier change and has no effect"}, r.said(t))
	require.Equal(t, before, r.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name)
	approve(r.cluster.Status.PendingReplacement.ID)
	require.Equal(t, []string{"Normal ReplacementApproved pool workers: 1 machine is replaced, because of: size from s-2vcpu-4gb to s-8vcpu-16gb"}, r.said(t))
	require.NotEqual(t, before, r.deployment(t, "one-workers").Spec.Template.Spec.InfrastructureRef.Name)
}

// TestEvents_held: each part that is held back has one event.
func TestEvents_held(t *testing.T) {
	r := record(t, nil)
	r.said(t)
	r.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(0)) })
	said := r.said(t)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "Warning PoolHoldsEtcd pool server: quantity is 0")
	r.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[1].MachineConfigRef.Name = "missing" })
	said = r.said(t)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "Warning ConfigMissing pool workers: DigitaloceanConfig missing does not exist")
	require.NotContains(t, said[0], "quantity is 0")
	r.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(1)) })
	require.Empty(t, r.said(t))
}

// TestEvents_reverted: each change of another writer has one event.
func TestEvents_reverted(t *testing.T) {
	r := record(t, nil)
	r.said(t)
	for range 2 {
		workers := r.deployment(t, "one-workers")
		workers.Spec.Replicas = new(int32(7))
		require.NoError(t, r.client.Update(t.Context(), workers))
		said := r.said(t)
		require.Len(t, said, 1)
		require.Contains(t, said[0], "Warning Reverted another writer changed MachineDeployment one-workers")
	}
}

// TestEvents_deletion: the deletion has an event, and each step that it waits for.
func TestEvents_deletion(t *testing.T) {
	r := record(t, nil)
	r.said(t)
	cluster := testkit.ExpectExists(t, r.client, &clusterv1.Cluster{ObjectMeta: r.named("one")})
	cluster.Finalizers = []string{"test/held"}
	require.NoError(t, r.client.Update(t.Context(), cluster))
	machine := &clusterv1.Machine{ObjectMeta: r.named("one-workers-a"), Spec: r.deployment(t, "one-workers").Spec.Template.Spec}
	machine.Labels, machine.Finalizers = map[string]string{clusterv1.ClusterNameLabel: "one", rkev1.ClusterNameLabel: "one"}, []string{"test/held"}
	require.NoError(t, r.client.Create(t.Context(), machine))
	require.NoError(t, r.client.Delete(t.Context(), r.cluster))
	require.Equal(t, []string{"Normal Deleting the machines of the cluster are being deleted, and their servers removed"}, r.said(t))
	require.NotNil(t, testkit.ExpectExists(t, r.client, cluster).DeletionTimestamp)

	waits := func(reason, message string) {
		before := machine.DeepCopy()
		machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
		require.NoError(t, r.client.Status().Patch(t.Context(), machine, client.MergeFrom(before)))
	}
	waits(clusterv1.MachineDeletingWaitingForPreTerminateHookReason, "Waiting for pre-terminate hooks to succeed (hooks: backup)")
	said := r.said(t)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "1 remain; one-workers-a: WaitingForPreTerminateHook: Waiting for pre-terminate hooks to succeed (hooks: backup)")
	ready := testkit.ExpectCondition(t, r.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.DeletingReason)
	require.Contains(t, ready.Message, "(hooks: backup)")
	waits(clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, strings.Repeat("x", 2000))
	said = r.said(t)
	require.Len(t, said, 1)
	require.LessOrEqual(t, len(said[0]), 1100)

	machine.Finalizers = nil
	require.NoError(t, r.client.Update(t.Context(), machine))
	require.NoError(t, client.IgnoreNotFound(r.client.Delete(t.Context(), machine)))
	said = r.said(t)
	require.LessOrEqual(t, len(said), 1)
	ready = testkit.ExpectCondition(t, r.cluster, provv1.ReadyCondition, metav1.ConditionFalse, provv1.DeletingReason)
	require.Equal(t, "no machine is left; the other objects of the cluster are being deleted", ready.Message)
}
