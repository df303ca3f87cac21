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

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

func TestAbsent(t *testing.T) {
	for name, cases := range map[string]map[string]decision{
		"CAPI Machine": absentMachines(), "owner": absentOwners(), "gone": goneMachines(),
	} {
		for of, c := range cases {
			t.Run(name+"/"+of, func(t *testing.T) {
				report := explained(c.snapshot, "kubectl drover")
				require.Equal(t, strings.TrimPrefix(c.want, "\n"), "# "+report.Subject+", "+report.Phase+"\n"+told(report))
			})
		}
	}
}

// withoutMachine is a CAPI Machine whose machine is not there.
func withoutMachine(change func(*facts.Snapshot)) *facts.Snapshot {
	s := machine()
	s.Machine, s.MissingKind, s.Credential = nil, "DigitaloceanMachine", nil
	s.Driver.Status.MachineKind = "DigitaloceanMachine"
	if change != nil {
		change(s)
	}
	return s
}

func absentMachines() map[string]decision {
	return map[string]decision{
		"the driver is not active": {withoutMachine(func(s *facts.Snapshot) { s.Driver = driver(false); s.Driver.Status.MachineKind = "" }), `
# CAPI Machine shop/web-1, Provisioning
! |DriverNotFound||
. It refers to a DigitaloceanMachine, and no active driver defines this kind.
> List the drivers: kubectl drover get drivers
> See why the driver is not ready: kubectl drover why driver/digitalocean
`},
		"being deleted, its kind is gone": {withoutMachine(func(s *facts.Snapshot) {
			since := ago(time.Minute)
			s.CAPIMachine.DeletionTimestamp, s.CAPIMachine.Finalizers, s.CAPIMachine.Status.Phase = &since, []string{"machine.cluster.x-k8s.io"}, "Deleting"
			s.Driver = nil
		}), `
# CAPI Machine shop/web-1, Deleting
! |DriverNotFound||
. It refers to a DigitaloceanMachine, and no active driver defines this kind. Cluster API cannot verify that the machine is gone, and keeps the CAPI Machine until the kind exists again.
> List the drivers: kubectl drover get drivers
> Create a NodeDriver for digitalocean, or activate the predefined one: kubectl patch nodedriver digitalocean --type merge -p '{"spec":{"active":true}}'
`},
		"of another provider": {withoutMachine(func(s *facts.Snapshot) {
			s.CAPIMachine.Spec.InfrastructureRef.APIGroup, s.CAPIMachine.Spec.InfrastructureRef.Kind = "infrastructure.cluster.x-k8s.io", "DockerMachine"
		}), `
# CAPI Machine shop/web-1, Provisioning
! |OtherProvider||
. Its infrastructure is a DockerMachine of group infrastructure.cluster.x-k8s.io, which Drover does not manage.
> See the Machine's conditions, which the provider of that group sets: kubectl -n shop describe machine.cluster.x-k8s.io web-1
`},
		"being deleted": {withoutMachine(func(s *facts.Snapshot) {
			since := ago(time.Minute)
			s.CAPIMachine.DeletionTimestamp, s.CAPIMachine.Finalizers, s.CAPIMachine.Status.Phase = &since, []string{"machine.cluster.x-k8s.io"}, "Deleting"
			s.CAPIMachine.Status.Conditions = []metav1.Condition{
				condition("Deleting", metav1.ConditionTrue, "WaitingForVolumeDetach", "waiting for volumes", 1),
				condition("InfrastructureReady", metav1.ConditionFalse, "Deleted", "waiting for volumes", 1),
				condition("NodeHealthy", metav1.ConditionUnknown, "NodeDoesNotExist", "Node does not exist", 1),
			}
		}), `
# CAPI Machine shop/web-1, Deleting
! |Deleting||
. Its DigitaloceanMachine web-1 is deleted. The CAPI Machine itself waits for its finalizers: machine.cluster.x-k8s.io.
. Deleting: waiting for volumes
. NodeHealthy: Node does not exist
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
`},
		"with what was left": {withoutMachine(func(s *facts.Snapshot) {
			s.State = &facts.State{Name: "web-1-machine-state", ServerMayExist: true, Log: "Creating machine...\n",
				Journal: &state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseCreated, InstanceName: "web-1"}}
		}), `
# CAPI Machine shop/web-1, Provisioning
! |InfrastructureMissing||
. It refers to DigitaloceanMachine web-1, which does not exist. It was deleted or never created.
> If a MachineSet or MachineDeployment owns the CAPI Machine, delete the Machine to get a new one: kubectl -n shop delete machine.cluster.x-k8s.io web-1
> Otherwise create the DigitaloceanMachine yourself
`},
	}
}

// owner is a MachineDeployment or MachineSet that a user asked for by name.
func owner(kind string, wanted, ready int64, change func(*facts.Object)) *facts.Snapshot {
	o := facts.Object{Kind: kind, Namespace: "shop", Name: "web", Phase: "Running", Replicas: wanted, ReadyReplicas: ready}
	if change != nil {
		change(&o)
	}
	return &facts.Snapshot{Now: now, Namespace: "shop", Name: "web", Owners: []facts.Object{o}}
}

// draining gives a pool a machine that Cluster API drains, and one that stays.
func draining(s *facts.Snapshot) *facts.Snapshot {
	since := ago(2 * time.Minute)
	of := map[string]string{clusterv1.MachineSetNameLabel: s.Name}
	s.Machines = []clusterv1.Machine{
		{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web-y", Labels: of}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web-x", Labels: of, DeletionTimestamp: &since}, Spec: clusterv1.MachineSpec{ClusterName: "store"},
			Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue,
				clusterv1.MachineDeletingDrainingNodeReason, "* Pod shop/cart: cannot evict pod as it would violate the pod's disruption budget.", 2)}}},
	}
	return s
}

// unready gives a pool a machine that is ready, one that fails, two that wait and one that is new.
func unready(s *facts.Snapshot) *facts.Snapshot {
	for name, c := range map[string]metav1.Condition{
		"web-a": done(clusterv1.MachineReadyCondition, "Ready", 2),
		"web-b": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, rkev1.JobRunningReason, "the Job runs. It takes long\n* Watch it: drover logs web-b", 2),
		"web-c": condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.WaitingForControlPlaneReason, "it waits for web-s", 2),
		"web-d": condition(clusterv1.MachineInfrastructureReadyCondition, metav1.ConditionFalse, "CreateFailed", "401 from the cloud", 2),
		"web-e": condition(clusterv1.MachineUpToDateCondition, metav1.ConditionTrue, "UpToDate", "", 2),
	} {
		s.Machines = append(s.Machines, clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{c}}})
	}
	slices.SortFunc(s.Machines, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func absentOwners() map[string]decision {
	return map[string]decision{
		"complete": {owner("MachineDeployment", 3, 3, nil), `
# MachineDeployment shop/web, Running
. All its machines are ready.
`},
		"some are missing": {owner("MachineSet", 3, 1, func(o *facts.Object) {
			o.Conditions = []metav1.Condition{
				condition("ScalingUp", metav1.ConditionTrue, "ScalingUp", "Scaling up from 1 to 3 replicas is blocked because DigitaloceanMachineTemplate web does not exist", 9),
				condition("ScalingDown", metav1.ConditionFalse, "NotScalingDown", "", 9),
			}
		}), `
# MachineSet shop/web, Running
! |MachinesMissing||
. Too few machines are ready: 1 of 3.
. ScalingUp: Scaling up from 1 to 3 replicas is blocked because DigitaloceanMachineTemplate web does not exist
> No machine exists yet. Check whether its machine template and bootstrap template exist: kubectl -n shop describe machineset web
`},
		"some are not ready": {unready(owner("MachineSet", 5, 1, func(o *facts.Object) {
			o.Machines = 5
			o.Conditions = []metav1.Condition{condition("MachinesReady", metav1.ConditionFalse, "NotReady", "* Machine web-b:\n  * InfrastructureReady: refused", 9),
				condition("Remediating", metav1.ConditionTrue, "Remediating", "* Machine web-c:\n  * the Job runs\n    * Watch it: drover logs web-c\n* Machine web-d: waits", 9)}
		})), `
# MachineSet shop/web, Running
! |MachinesMissing||
. Too few machines are ready: 1 of 5.
. Machine web-d: CreateFailed: 401 from the cloud
. Machine web-b: JobRunning: the Job runs
. Machine web-c: WaitingForControlPlane: it waits for web-s
. Remediating: Machine web-c: the Job runs; Watch it: drover logs web-c; Machine web-d: waits
> See why it is not ready: kubectl drover why web-d -n shop
> See why it is not ready: kubectl drover why web-b -n shop
> See why it is not ready: kubectl drover why web-c -n shop
`},
		"some are not ready, and may not be seen": {owner("MachineSet", 3, 1, func(o *facts.Object) { o.Machines = 3 }), `
# MachineSet shop/web, Running
! |MachinesMissing||
. Too few machines are ready: 1 of 3.
> List its machines: kubectl drover get -n shop
`},
		"wants none": {owner("MachineDeployment", 0, 0, nil), `
# MachineDeployment shop/web, Running
. It has no machines, because spec.replicas is 0.
> Scale it up: kubectl -n shop scale machinedeployment web --replicas=1
`},
		"wants none, and some are left": {owner("MachineSet", 0, 0, func(o *facts.Object) {
			o.Machines = 2
			o.Conditions = []metav1.Condition{condition("ScalingDown", metav1.ConditionTrue, "ScalingDown", "Scaling down from 2 to 0 replicas", 9)}
		}), `
# MachineSet shop/web, Running
! |MachinesLeft||
. spec.replicas is 0, and 2 machines are not deleted yet.
. ScalingDown: Scaling down from 2 to 0 replicas
> List its machines, and see why a machine remains: kubectl drover get -n shop; kubectl drover why MACHINE -n shop
`},
		"has machines, and no template": {owner("MachineDeployment", 3, 3, func(o *facts.Object) {
			o.Conditions = []metav1.Condition{
				condition("ScalingUp", metav1.ConditionFalse, "NotScalingUp", "Scaling up would be blocked because DigitaloceanMachineTemplate does not exist", 9),
			}
		}), `
# MachineDeployment shop/web, Running
. All its machines are ready.
. ScalingUp: Scaling up would be blocked because DigitaloceanMachineTemplate does not exist
`},
		"a machine more that is being drained": {draining(owner("MachineSet", 1, 1, nil)), `
# MachineSet shop/web, Running
! |MachinesLeaving||
. All its machines are ready, and 1 more are being deleted.
. Machine web-x: DrainingNode: Pod shop/cart: cannot evict pod as it would violate the pod's disruption budget.
> See why it waits: kubectl drover why web-x -n shop
> Check what prevents the eviction of pods, such as a PodDisruptionBudget: kubectl drover kubeconfig store -n shop --file store.yaml && kubectl --kubeconfig store.yaml get poddisruptionbudgets -A
> To limit the drain to five minutes: kubectl patch machinesets.cluster.x-k8s.io web -n shop --type=merge -p '{"spec":{"template":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":300}}}}}'
> To remove the server without draining its pods: kubectl annotate machines.cluster.x-k8s.io web-x -n shop machine.cluster.x-k8s.io/exclude-node-draining=
`},
		"does not say how many": {owner("MachineDeployment", -1, -1, nil), `
# MachineDeployment shop/web, Running
. The number of machines is not known, because spec.replicas is not set.
> Scale it: kubectl -n shop scale machinedeployment web --replicas=1
`},
		"deleted with all": {owner("MachineDeployment", 3, 3, func(o *facts.Object) { o.Deleting, o.Phase = true, "" }), `
# MachineDeployment shop/web, Deleting
! |Deleting||
. It is being deleted with all its machines.
> List its machines, and see why a machine remains: kubectl drover get -n shop; kubectl drover why MACHINE -n shop
`},
	}
}

// left is what a name that means nothing any more has left behind.
func left(state *facts.State) *facts.Snapshot {
	return &facts.Snapshot{Now: now, Namespace: "shop", Name: "web-9", State: state, Events: []corev1.Event{event("uid-m", "web-9", "ServerGone", "the server is gone", 20)}}
}

func goneMachines() map[string]decision {
	journal := func(phase state.Phase, name string) *state.Journal {
		return &state.Journal{Operation: state.Remove, Attempt: 2, Phase: phase, InstanceName: name}
	}
	pool := left(nil)
	pool.Asked = "MachineDeployment"
	return map[string]decision{
		"a pool": {pool, `
# MachineDeployment shop/web-9, Gone
. No MachineDeployment of this name exists.
. The events below are the only information about it. Events are kept for an hour.
> List all machines: kubectl drover get -A
`},
		"state not read": {left(nil), `
# machine shop/web-9, Gone
. No machine of this name exists.
. The events below are the only information about it. Events are kept for an hour.
> List all machines: kubectl drover get -A
`},
		"no server is left": {left(&facts.State{Name: "web-9-machine-state", Journal: journal(state.PhaseGone, "web-9")}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists and records that no server is left.
> Delete the Secret: kubectl -n shop delete secret web-9-machine-state
`},
		"a server may be left": {left(&facts.State{Name: "web-9-machine-state", ServerMayExist: true, Journal: journal(state.PhaseRemoving, "pool-web-9")}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists: the removal was started (Removing, attempt 2 to remove). A server may exist.
> Look in the cloud for a server named pool-web-9
> Keep the Secret until no server is left, because it holds the server's key and record. Then delete it: kubectl -n shop patch secret web-9-machine-state --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl -n shop delete secret web-9-machine-state
`},
		"its name is odd": {left(&facts.State{Name: "web-9-machine-state", ServerMayExist: true, Journal: journal(state.PhaseIntent, "{cmd}\x1b[31m{ns}")}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists: Drover requested a server; it is not known whether the cloud created one (Intent, attempt 2 to remove). A server may exist.
> Look in the cloud for a server named INSTANCE
> Keep the Secret until no server is left, because it holds the server's key and record. Then delete it: kubectl -n shop patch secret web-9-machine-state --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl -n shop delete secret web-9-machine-state
`},
		"of another system": {left(&facts.State{Name: "web-9-machine-state", ServerMayExist: true}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists: unknown; there is a record of a server. A server may exist.
> Look in the cloud for a server named web-9
> Keep the Secret until no server is left, because it holds the server's key and record. Then delete it: kubectl -n shop patch secret web-9-machine-state --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl -n shop delete secret web-9-machine-state
`},
		"cannot be read": {left(&facts.State{Name: "web-9-machine-state", ServerMayExist: true, Problems: []string{"Secret web-9-machine-state: bad"}}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists: unknown; the state cannot be read. A server may exist.
> Look in the cloud for a server named web-9
> Keep the Secret until no server is left, because it holds the server's key and record. Then delete it: kubectl -n shop patch secret web-9-machine-state --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl -n shop delete secret web-9-machine-state
`},
		"nothing was ever made": {left(&facts.State{Name: "web-9-machine-state"}), `
# machine shop/web-9, Gone
. No machine of this name exists.
. Its state Secret web-9-machine-state still exists and records that no server is left.
> Delete the Secret: kubectl -n shop delete secret web-9-machine-state
`},
	}
}

func TestKnowsAnything(t *testing.T) {
	for name, c := range map[string]struct {
		snapshot facts.Snapshot
		want     bool
	}{
		"nothing":       {facts.Snapshot{Name: "web-1", Problems: []string{"events are forbidden"}}, false},
		"no state":      {facts.Snapshot{State: &facts.State{}}, false},
		"state":         {facts.Snapshot{State: &facts.State{Name: "s"}}, true},
		"events":        {facts.Snapshot{Events: []corev1.Event{{}}}, true},
		"owners":        {facts.Snapshot{Owners: []facts.Object{{}}}, true},
		"CAPI Machine":  {*withoutMachine(nil), true},
		"a machine":     {*machine(), true},
		"only a driver": {facts.Snapshot{Driver: driver(true)}, false},
	} {
		require.Equal(t, c.want, explain.KnowsAnything(&c.snapshot), name)
	}
}

// TestAbsentShowsConditions: False is the good state of some of Cluster API's conditions.
func TestAbsentShowsConditions(t *testing.T) {
	conditions := []metav1.Condition{
		condition("Available", metav1.ConditionFalse, "NotAvailable", "", 3),
		condition("RollingOut", metav1.ConditionTrue, "RollingOut", "", 2),
		condition("Remediating", metav1.ConditionFalse, "NotRemediating", "", 2),
		condition("Paused", metav1.ConditionUnknown, "", "", 2),
		condition("MachinesReady", metav1.ConditionUnknown, "NotYet", "", 2),
		condition("MachinesUpToDate", metav1.ConditionTrue, "UpToDate", "", 2),
	}
	report := explained(owner("MachineDeployment", 2, 1, func(o *facts.Object) { o.Conditions = conditions }), "drover")
	var states []string
	for _, step := range report.Steps {
		states = append(states, string(step.State)+" "+step.Name)
	}
	require.Equal(t, []string{"fail Available", "wait RollingOut", "ok Remediating", "ok Paused", "wait MachinesReady", "ok MachinesUpToDate"}, states)
}
