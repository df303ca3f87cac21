package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// clusterOf is Cluster one of namespace shop, its infrastructure provisioned, whose control plane has these conditions.
func clusterOf(conditions ...metav1.Condition) *facts.ClusterSnapshot {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "one-cp"}
	c.Status.Conditions = []metav1.Condition{done(clusterv1.ClusterInfrastructureReadyCondition, "Ready", 9)}
	for i := range conditions {
		conditions[i].Message = advice.Message(conditions[i].Message, advice.ControlPlane{Namespace: "shop", Name: "one-cp", Cluster: "one", Itself: "one-cp"}.On(conditions[i].Reason))
	}
	return &facts.ClusterSnapshot{Now: now, Cluster: c, Version: "v1.36.3+k3s1",
		ControlPlane: &facts.Object{Kind: "RKEControlPlane", Namespace: "shop", Name: "one-cp", Replicas: -1, Conditions: conditions}}
}

// with adds a machine of these roles with its condition Reconciled.
func with(s *facts.ClusterSnapshot, name string, status metav1.ConditionStatus, reason, message string, roles ...string) *facts.ClusterSnapshot {
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{}}}
	for _, role := range roles {
		m.Labels[role] = "true"
	}
	m.Status.Phase = "Provisioned"
	about := advice.ControlPlane{Namespace: "shop", Name: "one-cp", Machine: name}
	m.Status.Conditions = []metav1.Condition{condition(rkev1.ReconciledCondition, status, reason, advice.Message(message, about.On(reason)), 2)}
	s.Machines = append(s.Machines, m)
	return s
}

// withBootstrap gives a machine an RKEBootstrap of which Cluster API says that it is not ready.
func withBootstrap(m *clusterv1.Machine, reason, message string) *clusterv1.Machine {
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "b1"}
	m.Status.Conditions = append(m.Status.Conditions, condition(clusterv1.MachineBootstrapConfigReadyCondition, metav1.ConditionFalse, reason, message, 2))
	return m
}

func waitingForMachines() *facts.ClusterSnapshot {
	s := clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason, "1 of 2 machines are not as they should be", 2))
	return with(s, "one-a", metav1.ConditionFalse, rkev1.ApplyingPlanReason, "the agent applies the plan", rkev1.EtcdRoleLabel, rkev1.ControlPlaneRoleLabel)
}

func TestClusterDecisions(t *testing.T) {
	paused, foreign, missing, infrastructure := clusterOf(), clusterOf(), clusterOf(), clusterOf()
	paused.Cluster.Spec.Paused = new(true)
	foreign.Cluster.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	missing.ControlPlane = nil
	foreignFailed := clusterOf()
	foreignFailed.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	foreignFailed.ControlPlane = nil
	for name, server := range map[string]metav1.Condition{
		"one-a": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.AttemptsExhaustedReason, "attempt 1 failed (Invalid, CreateFailed): no such region. The cloud rejects it", 1),
		"one-b": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason, "the Job one-b-create-1 runs", 1),
	} {
		foreignFailed.Machines = append(foreignFailed.Machines, clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{server}}})
	}
	taken := clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1))
	taken.ControlPlane.Cluster = "another"
	infrastructure.ControlPlane.Conditions = []metav1.Condition{condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.WaitingForClusterReason, "", 1)}
	infrastructure.Cluster.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterInfrastructureReadyCondition, metav1.ConditionFalse, "NotReady", "* RKECluster one is not there", 9)}
	deleting, stuck := waitingForMachines(), clusterOf()
	since := ago(1)
	deleting.Cluster.DeletionTimestamp, stuck.Cluster.DeletionTimestamp = &since, &since
	deadNode := with(clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1)), "one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "", rkev1.WorkerRoleLabel)
	deadNode.ControlPlane.Conditions = append(deadNode.ControlPlane.Conditions, done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 1), done(rkev1.ReadyCondition, rkev1.ReadyReason, 1))
	deadNode.Machines[0].Status.NodeRef.Name = "n1"
	deadNode.Machines[0].Status.Conditions = append(deadNode.Machines[0].Status.Conditions,
		condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown, "NodeHealthUnknown", "* Node.Ready: Kubelet stopped posting node status.", 2))
	nameTaken := with(clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1), done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 1), done(rkev1.ReadyCondition, rkev1.ReadyReason, 1)),
		"one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "", rkev1.WorkerRoleLabel)
	nameTaken.Machines[0] = *withBootstrap(&nameTaken.Machines[0], rkev1.NameTakenReason, "the Secret b1-machine-plan does not belong to this object: delete it")
	starting := with(clusterOf(nameTaken.ControlPlane.Conditions...), "one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "")
	starting.Machines[0] = *withBootstrap(&starting.Machines[0], clusterv1.NotReadyReason, "dataSecretCreated is false")
	noServers := clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason, "one-b, one-c and one-d: its server is not created yet yet", 2))
	for name, server := range map[string]metav1.Condition{
		"one-b": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason, "the Job one-b-create-1 runs\n* Watch it: drover logs one-b", 1),
		"one-c": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason, "attempt 1 failed (Quota, CreateFailed): 422 droplet limit exceeded. The cloud", 1),
		"one-d": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.WaitingForQuotaReason, "machine one-c asks first", 1),
	} {
		with(noServers, name, metav1.ConditionFalse, rkev1.WaitingForServerReason, "its server is not created yet yet")
		last := &noServers.Machines[len(noServers.Machines)-1]
		last.Status.Conditions = append(last.Status.Conditions, server)
	}
	slices.SortFunc(noServers.Machines, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	undrained := with(clusterOf(condition(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason, "nothing answers at 10.0.0.1:6443", 2)), "one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "")
	undrained.Cluster.DeletionTimestamp = &since
	undrained.Machines[0].Status.Conditions = append(undrained.Machines[0].Status.Conditions,
		condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, clusterv1.MachineDeletingDrainingNodeReason, "Error draining Node, please check controller logs for errors", 2))
	budget := with(clusterOf(nameTaken.ControlPlane.Conditions...), "one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "", rkev1.WorkerRoleLabel)
	budget.Machines[0].DeletionTimestamp, budget.Machines[0].Spec.ClusterName = &since, "one"
	budget.Machines[0].Labels[clusterv1.MachineDeploymentNameLabel] = "pool"
	budget.Machines[0].Labels[clusterv1.MachineSetNameLabel] = "pool-x"
	budget.Machines[0].Status.Conditions = append(budget.Machines[0].Status.Conditions, condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue,
		clusterv1.MachineDeletingDrainingNodeReason, "* Pod shop/cart: cannot evict pod as it would violate the pod's disruption budget.", 2))
	restored := with(clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason, "the Secret one-ca is gone", 2)), "one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "")
	restored.Machines[0].Status.Conditions = append(restored.Machines[0].Status.Conditions,
		condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.OwnerUnknownReason, "this machine came from a backup", 2))
	noClass, noClassNorPlane, unmade, upgrading := clusterOf(), clusterOf(), clusterOf(), clusterOf(nameTaken.ControlPlane.Conditions...)
	for _, s := range []*facts.ClusterSnapshot{noClass, noClassNorPlane, unmade, upgrading} {
		s.Cluster.Spec.Topology.ClassRef.Name = "cc"
	}
	notDone := func(s *facts.ClusterSnapshot, reason, message string) {
		s.Cluster.Status.Conditions = append(s.Cluster.Status.Conditions, condition(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, reason, message, 2))
	}
	notDone(noClass, "ReconcileFailed", `ClusterClass "cc" not found`)
	notDone(noClassNorPlane, "ReconcileFailed", `ClusterClass "cc" not found`)
	notDone(upgrading, "ClusterUpgrading", "worker md is held")
	noClass.Cluster.Spec.ControlPlaneRef, unmade.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}, clusterv1.ContractVersionedObjectReference{}
	noClass.ControlPlane, noClassNorPlane.ControlPlane, unmade.ControlPlane = nil, nil, nil
	for name, tt := range map[string]struct {
		snapshot *facts.ClusterSnapshot
		want     string
	}{
		"as specified": {clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1), done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 1), done(rkev1.ReadyCondition, rkev1.ReadyReason, 1)), `
. The cluster matches its specification.
`},
		"as specified, with a manifest": {clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason, "all machines match the specification. k3s applies spec.additionalManifest", 1),
			done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 1), done(rkev1.ReadyCondition, rkev1.ReadyReason, 1)), `
. The cluster matches its specification.
. k3s applies spec.additionalManifest
`},
		"as specified, and a drain is held": {budget, `
. The cluster matches its specification.
. Machine one-a: DrainingNode: Pod shop/cart: cannot evict pod as it would violate the pod's disruption budget.
> See why it waits: drover why one-a -n shop
> Check what prevents the eviction of pods, such as a PodDisruptionBudget: drover kubeconfig one -n shop --file one.yaml && kubectl --kubeconfig one.yaml get poddisruptionbudgets -A
> To limit the drain to five minutes: kubectl patch machinedeployments.cluster.x-k8s.io pool -n shop --type=merge -p '{"spec":{"template":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":300}}}}}'
> To remove the server without draining its pods: kubectl annotate machines.cluster.x-k8s.io one-a -n shop machine.cluster.x-k8s.io/exclude-node-draining=
`},
		"restored with its owners": {restored, `
! |OwnerUnknown||
. Machine one-a was restored from a backup with owners that do not exist. Drover does not change its server, and creates no other server for the cluster. Until this is fixed, ignore the other messages of this report.
> To keep the server, restore again as docs/dataflow.md describes: empty the namespace without touching its servers, and apply the backup without metadata.ownerReferences
> See why it waits: drover why one-a -n shop
`},
		"unseen": {clusterOf(), `
! |NotReconciled||
. No manager has reconciled the control plane yet.
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"paused": {paused, `
! |Paused||
. The Cluster one is paused, so Drover does not reconcile the machine.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io one --type merge -p '{"spec":{"paused":false}}'
`},
		"another's control plane": {foreign, `
! |ControlPlaneForeign||
. Drover manages the machines of this Cluster, but not its control plane.
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"another's control plane, and a machine failed": {foreignFailed, `
! |ControlPlaneForeign||
. Machine one-a: AttemptsExhausted: attempt 1 failed (Invalid, CreateFailed): no such region
. Drover manages the machines of this Cluster, but not its control plane.
> See the state of its server: drover why one-a -n shop
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"no control plane": {missing, `
! |ControlPlaneMissing||
. The RKEControlPlane one-cp that the Cluster names does not exist or could not be read.
> If spec.controlPlaneRef names the wrong control plane, correct it: kubectl edit clusters.cluster.x-k8s.io one -n shop
> List the control planes: kubectl get rkecontrolplanes.rke.cattle.io -n shop
> If it does not exist, create it from the cluster's manifest
`},
		"another Cluster's control plane": {taken, `
! |ControlPlaneTaken||
. The RKEControlPlane one-cp belongs to Cluster another. Drover creates no server for this Cluster until it names its own control plane.
> Name a separate RKEControlPlane in spec.controlPlaneRef. Do this before you delete the Cluster, because the control plane that it names is deleted with it: kubectl edit clusters.cluster.x-k8s.io one -n shop
`},
		"infrastructure": {infrastructure, `
! InfrastructureReady|NotReady||RKECluster one is not there
. RKECluster one is not there
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"no etcd machine": {clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.NoEtcdMachineReason, "no machine has the role etcd", 2)), `
! Reconciled|NoEtcdMachine||no machine has the role etcd
. no machine has the role etcd
> List the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n shop --show-labels
`},
		"a machine is behind": {waitingForMachines(), `
! Reconciled|WaitingForMachines||1 of 2 machines are not as they should be
. 1 of 2 machines are not as they should be
. Machine one-a: the agent applies the plan
> See why it is not ready: drover why one-a -n shop
`},
		"what fails comes before what waits": {with(waitingForMachines(), "one-b", metav1.ConditionFalse, rkev1.PlanFailedReason, "instruction install failed with exit code 1", rkev1.WorkerRoleLabel), `
! Reconciled|WaitingForMachines||1 of 2 machines are not as they should be
. 1 of 2 machines are not as they should be
. Machine one-b: instruction install failed with exit code 1
> See why it is not ready: drover why one-b -n shop
> Read the agent's report: drover logs one-b -n shop --agent
> If you corrected the server, let the agent apply the plan again: drover retry one-b -n shop
> Revert the change that caused this plan; Drover then replaces the plan: kubectl edit rkecontrolplanes.rke.cattle.io one-cp -n shop
`},
		"two faults at once": {with(clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.RetryingPlanReason, "one-a: attempt 3 failed", 2),
			condition(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason, "nothing answers at 10.0.0.1:6443", 2)),
			"one-a", metav1.ConditionFalse, rkev1.RetryingPlanReason, "attempt 3 failed", rkev1.EtcdRoleLabel), `
! Reconciled|RetryingPlan||one-a: attempt 3 failed
. one-a: attempt 3 failed
. nothing answers at 10.0.0.1:6443
> Revert the change that caused this plan; Drover then replaces the plan: kubectl edit rkecontrolplanes.rke.cattle.io one-cp -n shop
> See why it is not ready: drover why one-a -n shop
> Read the agent's report: drover logs one-a -n shop --agent
> Allow connections from the manager to the address in the message. Check firewalls, routes and spec.controlPlaneEndpoint of the RKECluster
> List the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n shop --show-labels
`},
		"what has no effect": {with(clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 2), done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 2),
			condition(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason, "spec.machineSelectorConfig[0]: its selector matches no machine", 2), done(rkev1.ReadyCondition, rkev1.ReadyReason, 2)),
			"one-a", metav1.ConditionTrue, rkev1.ReconciledReason, ""), `
. The cluster matches its specification.
. Warning: spec.machineSelectorConfig[0]: its selector matches no machine
> Change it: kubectl edit rkecontrolplanes.rke.cattle.io one-cp -n shop
`},
		"machines whose servers are not there": {noServers, `
! Reconciled|WaitingForMachines||one-b, one-c and one-d: its server is not created yet yet
. one-b, one-c and one-d: its server is not created yet yet
. Machine one-b: JobRunning: the Job one-b-create-1 runs
. Machine one-c: WaitingForQuota: attempt 1 failed (Quota, CreateFailed): 422 droplet limit exceeded
> See why it is not ready: drover why one-b -n shop
> See the state of its server: drover why one-c -n shop
`},
		"one cure of two things": {with(clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.RetryingPlanReason, "one-a: attempt 3 failed", 2),
			condition(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason, "kubelet-arg is not known", 2)), "one-a", metav1.ConditionFalse, rkev1.RetryingPlanReason, "attempt 3 failed"), `
! Reconciled|RetryingPlan||one-a: attempt 3 failed
. one-a: attempt 3 failed
. Warning: kubelet-arg is not known
> Revert the change that caused this plan; Drover then replaces the plan: kubectl edit rkecontrolplanes.rke.cattle.io one-cp -n shop
> See why it is not ready: drover why one-a -n shop
> Read the agent's report: drover logs one-a -n shop --agent
`},
		"a node that is not well": {deadNode, `
. The cluster matches its specification.
. The Node n1 of Machine one-a is not healthy: Node.Ready: Kubelet stopped posting node status.
> See why its Node is not healthy: drover why one-a -n shop
`},
		"a machine whose RKEBootstrap cannot be reconciled": {nameTaken, `
! BootstrapConfigReady|NameTaken||the Secret b1-machine-plan does not belong to this object: delete it
. Machine one-a: its RKEBootstrap b1 cannot be reconciled: NameTaken: the Secret b1-machine-plan does not belong to this object: delete it
> See its conditions: kubectl -n shop describe rkebootstraps.rke.cattle.io b1
`},
		"a machine whose RKEBootstrap is not ready yet": {starting, `
. The cluster matches its specification.
`},
		"being deleted, and nothing is left": {stuck, `
! |Deleting||
. The Cluster one is being deleted. Its machines are deleted first; machines left: 0.
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
> If it is not deleted, it may refer to a kind that does not exist. Set spec.controlPlaneRef to an RKEControlPlane and spec.infrastructureRef to an RKECluster, with any name: kubectl edit clusters.cluster.x-k8s.io one -n shop
`},
		"being deleted": {deleting, `
! |Deleting||
. The Cluster one is being deleted. Its machines are deleted first; machines left: 1.
> See why it waits: drover why one-a -n shop
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"being deleted, and a node is not drained": {undrained, `
! |Deleting||
. The Cluster one is being deleted. Its machines are deleted first; machines left: 1.
. Machine one-a: DrainingNode: Error draining Node, please check controller logs for errors
. Its Node cannot be drained while the manager cannot reach the cluster's API: nothing answers at 10.0.0.1:6443
> See why it waits: drover why one-a -n shop
> Allow connections from the manager to the address in the message. Check firewalls, routes and spec.controlPlaneEndpoint of the RKECluster
> List the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n shop --show-labels
> To remove the server without draining its pods: kubectl annotate machines.cluster.x-k8s.io one-a -n shop machine.cluster.x-k8s.io/exclude-node-draining=
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"a ClusterClass that is not there": {noClass, `
! TopologyReconciled|ReconcileFailed||ClusterClass "cc" not found
. Cluster API has not applied spec.topology (ReconcileFailed): ClusterClass "cc" not found
> Correct spec.topology, or create the object that the message names: kubectl edit clusters.cluster.x-k8s.io one -n shop
> List the ClusterClasses: kubectl get clusterclasses.cluster.x-k8s.io -A
`},
		"a ClusterClass that is not there, and no control plane": {noClassNorPlane, `
! TopologyReconciled|ReconcileFailed||ClusterClass "cc" not found
. Cluster API has not applied spec.topology (ReconcileFailed): ClusterClass "cc" not found
. The RKEControlPlane one-cp that the Cluster names does not exist or could not be read.
> Correct spec.topology, or create the object that the message names: kubectl edit clusters.cluster.x-k8s.io one -n shop
> List the ClusterClasses: kubectl get clusterclasses.cluster.x-k8s.io -A
> If spec.controlPlaneRef names the wrong control plane, correct it: kubectl edit clusters.cluster.x-k8s.io one -n shop
> List the control planes: kubectl get rkecontrolplanes.rke.cattle.io -n shop
> If it does not exist, create it from the cluster's manifest
`},
		"a topology that is not done, and all else is well": {upgrading, `
! TopologyReconciled|ClusterUpgrading||worker md is held
. Cluster API has not applied spec.topology (ClusterUpgrading): worker md is held
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"a topology of which nothing is made yet": {unmade, `
! |ControlPlaneMissing||
. Cluster API has not created the control plane for spec.topology yet.
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, strings.TrimPrefix(tt.want, "\n"), told(explain.Cluster(tt.snapshot, "drover")))
		})
	}
}

// A control plane is told of also where no Cluster has it as its own, and machines do not repeat what it says.
func TestControlPlane(t *testing.T) {
	since := ago(time.Minute)
	second := clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.ClusterHasAnotherReason, "the Cluster one has another", 2),
		condition(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ClusterHasAnotherReason, "the Cluster one has another", 2))
	second.Cluster = nil
	paused := clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, clusterv1.PausedReason, "the Cluster or this object is paused", 2))
	paused.Cluster.Spec.Paused = new(true)
	going := with(clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.EtcdLostReason, "no machine has its etcd data any more", 2)),
		"one-a", metav1.ConditionTrue, rkev1.UpToDateReason, "")
	going.Cluster.DeletionTimestamp = &since
	for name, tt := range map[string]struct {
		snapshot *facts.ClusterSnapshot
		want     string
	}{
		"whose Cluster is being deleted": {going, `
! |Deleting||
. The Cluster one is being deleted. Its machines are deleted first; machines left: 1.
> See why it waits: drover why one-a -n shop
> See the Cluster's conditions: kubectl describe clusters.cluster.x-k8s.io one -n shop
`},
		"that its Cluster does not name": {second, `
! Reconciled|ClusterHasAnotherControlPlane||the Cluster one has another
. the Cluster one has another
> See which control plane the Cluster names: kubectl get clusters.cluster.x-k8s.io -n shop -o yaml
> If the Cluster's servers were created with this control plane, name it in spec.controlPlaneRef again: kubectl edit clusters.cluster.x-k8s.io one -n shop
> If this control plane is not needed, delete it: kubectl delete rkecontrolplanes.rke.cattle.io one-cp -n shop
`},
		"paused": {paused, `
! |Paused||
. The Cluster one is paused, so Drover does not reconcile the machine.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io one --type merge -p '{"spec":{"paused":false}}'
`},
		"that cannot judge its machines": {with(clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.ReleasesInvalidReason, "it is no YAML", 2)),
			"one-a", metav1.ConditionUnknown, rkev1.ReleasesInvalidReason, "the control plane one-cp: it is no YAML"), `
! Reconciled|ReleasesInvalid||it is no YAML
. it is no YAML
> See docs/releases.md for the known releases and how to add more
`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, strings.TrimPrefix(tt.want, "\n"), told(explain.ControlPlane(tt.snapshot, "drover")))
		})
	}
	golden(t, "controlplane", explain.ControlPlane(waitingForMachines(), "drover"))
	second.ControlPlane.Deleting = true
	require.Equal(t, "Deleting", explain.ControlPlane(second, "drover").Phase)
	ready := clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1), done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 1), done(rkev1.ReadyCondition, rkev1.ReadyReason, 1))
	require.Equal(t, "Ready", explain.ControlPlane(ready, "drover").Phase)
}

func TestClusterGolden(t *testing.T) {
	s := waitingForMachines()
	s.Machines[0].Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.36.2+k3s1"}
	golden(t, "cluster", explain.Cluster(s, "kubectl drover"))
	s.Machines[0].Status.NodeInfo.KubeletVersion = s.Version
	require.NotContains(t, explain.Cluster(s, "drover").Facts, explain.Fact{Name: "running", Value: s.Version}, "which is what is wanted")
}

// A machine whose server runs waits for what its plan waits for.
func TestMachineWaitsForItsPlan(t *testing.T) {
	s := running()
	s.CAPIMachine = &with(clusterOf(), "web-1", metav1.ConditionFalse, rkev1.WaitingForAgentReason, "no agent has taken the plan up").Machines[0]
	require.Equal(t, `! Reconciled|WaitingForAgent||no agent has taken the plan up
. The server runs and its state is stored.
. no agent has taken the plan up
> Check on the server whether the agent runs, and read its log: drover ssh web-1 -n shop -- 'systemctl status --no-pager drover-agent; journalctl -u drover-agent -n 50'
> If the log says that the token or key is unknown, let the agent register again as docs/endpoint.md describes
> Read the agent's report: drover logs web-1 -n shop --agent
`, told(explain.Machine(s, "drover")))
	s.CAPIMachine.Status.Conditions = []metav1.Condition{done(rkev1.ReconciledCondition, rkev1.UpToDateReason, 1), done(rkev1.PlanAppliedCondition, rkev1.PlanAppliedReason, 1)}
	require.NotContains(t, told(explain.Machine(s, "drover")), "!")

	// While it is no Node, its control plane may be why.
	s.ControlPlane = clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.RetryingPlanReason, "another: attempt 3 failed", 2),
		condition(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason, "nothing answers at 10.0.0.1:6443", 2)).ControlPlane
	require.Contains(t, told(explain.Machine(s, "drover")), "! Available|APINotReached||the control plane one-cp: nothing answers at 10.0.0.1:6443\n")
	s.CAPIMachine.Status.Conditions = nil
	s.ControlPlane = clusterOf(condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.AuthorityInvalidReason, "the Secret one-ca cannot be used", 2)).ControlPlane
	require.Equal(t, `! Reconciled|AuthorityInvalid||the control plane one-cp: the Secret one-ca cannot be used
. The server runs and its state is stored.
. the control plane one-cp: the Secret one-ca cannot be used
> Correct the Secret that the message names. While the cluster has no server, you can also delete it, and Drover creates a new one: kubectl get secrets -n shop
`, told(explain.Machine(s, "drover")))
	s.ControlPlane.Conditions = []metav1.Condition{done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 1)}
	require.Contains(t, told(explain.Machine(s, "drover")), "Cluster API waits for the Node")
}
