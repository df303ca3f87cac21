package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// told is what a report tells: what blocks, why, and what to do.
func told(r *explain.Report) string {
	var out strings.Builder
	if b := r.Blocker; b != nil {
		fmt.Fprintf(&out, "! %s|%s|%s|%s\n", b.Step, b.Reason, b.Class, b.Message)
	}
	for _, line := range r.Verdict {
		fmt.Fprintf(&out, ". %s\n", line)
	}
	for _, line := range r.Next {
		fmt.Fprintf(&out, "> %s\n", line)
	}
	return out.String()
}

// decision is a snapshot and what is told of it.
type decision struct {
	snapshot *facts.Snapshot
	want     string
}

func TestDecisions(t *testing.T) {
	for name, cases := range map[string]map[string]decision{
		"attempt": attemptDecisions(), "end": endDecisions(), "remove": removeDecisions(),
		"job": jobDecisions(), "job elsewhere": jobElsewhereDecisions(), "pause": pauseDecisions(), "owner": ownerDecisions(), "named": namedDecisions(),
		"odd": oddDecisions(), "odd reason": oddReasonDecisions(),
	} {
		for of, c := range cases {
			t.Run(name+"/"+of, func(t *testing.T) {
				require.Equal(t, strings.TrimPrefix(c.want, "\n"), told(explained(c.snapshot, "drover")))
			})
		}
	}
}

// changed is a snapshot after a change.
func changed(s *facts.Snapshot, change func(*facts.Snapshot)) *facts.Snapshot {
	change(s)
	return s
}

func attemptDecisions() map[string]decision {
	due, soon := ago(time.Minute), ago(-90*time.Second)
	return map[string]decision{
		"transient, soon again": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassTransient, "502 Bad Gateway"), func(s *facts.Snapshot) {
			s.Machine.Status.NextAttemptTime = &soon
		}), `
! CreateJob|WaitingForRetry|Transient|502 Bad Gateway
. attempt 2 failed (Transient, CreateFailed): 502 Bad Gateway. A failure that is usually temporary: a timeout, a broken connection or an internal error of the cloud
. Attempt 2 to create the server ended 3m ago.
. The next attempt starts in 90s.
> Wait: the manager retries with increasing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop
`},
		"due": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassThrottled, "429"), func(s *facts.Snapshot) {
			s.Machine.Status.NextAttemptTime = &due
		}), `
! CreateJob|WaitingForRetry|Throttled|429
. attempt 2 failed (Throttled, CreateFailed): 429. The cloud limits the request rate
. Attempt 2 to create the server ended 3m ago.
. The next attempt is due.
> Wait: the manager retries with increasing delays
> If it persists, other users of the same credential may use up the rate limit
> Read the whole log: drover logs web-1 -n shop
> When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop
`},
	}
}

func endDecisions() map[string]decision {
	return map[string]decision{
		"a server that the cloud lists no more": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions,
				condition(rkev1.BootstrapDeliveredCondition, metav1.ConditionUnknown, rkev1.NotVerifiedReason, "contact is off", 2),
				condition(rkev1.ServerExistsCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason, "the cloud lists no server", 2))
		}), `
! ServerExists|ServerNotListed||the cloud lists no server
. the cloud lists no server
> Look for the server in the cloud. If it still runs, restore the tags that docs/drivers.md names
> Delete the machine. A MachineSet replaces it; without a MachineSet, create another one yourself: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"a server of which nothing more is known": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, condition(rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason, "not yet", 2))
			s.CAPIMachine.Status.NodeRef.Name = "web-1"
		}), `
. The server runs and its state is stored.
`},
		"a node that is not well": {changed(running(), func(s *facts.Snapshot) {
			s.CAPIMachine.Status.NodeRef.Name = "web-1"
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown, "NodeHealthUnknown",
				"* Node.Ready: Kubelet stopped posting node status.\n* Node.DiskPressure: Kubelet stopped posting node status.", 2)}
		}), `
! NodeHealthy|NodeHealthUnknown||Node.Ready: Kubelet stopped posting node status.; Node.DiskPressure: Kubelet stopped posting node status.
. The server was created and its state is stored.
. Node.Ready: Kubelet stopped posting node status.; Node.DiskPressure: Kubelet stopped posting node status.
. Its Node web-1 is not healthy or not reachable. The server may be off, gone or overloaded.
> See the state of the kubelet: drover ssh web-1 -n shop -- 'systemctl status --no-pager kubelet k3s k3s-agent rke2-server rke2-agent; df -h'
> Read the log of the kubelet, k3s or RKE2: drover ssh web-1 -n shop -- 'sudo journalctl -u kubelet -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'
> If the login fails, look at the server in the cloud
> If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"a node that was deleted": {changed(running(), func(s *facts.Snapshot) {
			s.CAPIMachine.Status.NodeRef.Name = "web-1"
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, clusterv1.MachineNodeDeletedReason,
				"Node web-1 has been deleted while the Machine still exists", 2)}
		}), `
! NodeHealthy|NodeDeleted||Node web-1 has been deleted while the Machine still exists
. The server was created and its state is stored.
. Node web-1 has been deleted while the Machine still exists
. Its Node web-1 does not exist any more. It was deleted, or the server is gone.
> If its Node was deleted, restart the kubelet, which registers its Node only when it starts: drover ssh web-1 -n shop -- "sudo systemctl try-restart 'k3s*' 'rke2*' 'kubelet*'"
> See the state of the kubelet: drover ssh web-1 -n shop -- 'systemctl status --no-pager kubelet k3s k3s-agent rke2-server rke2-agent; df -h'
> Read the log of the kubelet, k3s or RKE2: drover ssh web-1 -n shop -- 'sudo journalctl -u kubelet -u k3s -u k3s-agent -u rke2-server -u rke2-agent -n 50 --no-pager'
> If the login fails, look at the server in the cloud
> If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"its plan is applied, and it is no node": {changed(running(), func(s *facts.Snapshot) {
			s.CAPIMachine.Status.NodeRef.Name = ""
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.UpToDateReason, "", 2)}
		}), `
. The server runs and its state is stored.
. Cluster API waits for the Node to join the cluster.
> If its Node was deleted, restart the kubelet, which registers its Node only when it starts: drover ssh web-1 -n shop -- "sudo systemctl try-restart 'k3s*' 'rke2*' 'kubelet*'"
> See the state of the kubelet: drover ssh web-1 -n shop -- 'systemctl status --no-pager kubelet k3s k3s-agent rke2-server rke2-agent; df -h'
`},
		"a node that is not well, whose agent is silent, and no key is kept": {changed(running(), func(s *facts.Snapshot) {
			s.State.NoKey, s.CAPIMachine.Status.NodeRef.Name = true, "web-1"
			about := advice.ControlPlane{Namespace: "shop", Name: "one-cp", Machine: "web-1"}
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse, "NodeNotHealthy", "* Node.Ready: it is off", 2),
				condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.AgentSilentReason, advice.Message("its agent has not called", about.On(rkev1.AgentSilentReason)), 2)}
		}), `
! Reconciled|AgentSilent||its agent has not called
. The server was created and its state is stored.
. its agent has not called
. Node.Ready: it is off
. Its Node web-1 is not healthy or not reachable. The server may be off, gone or overloaded.
> Drover keeps no SSH key for this server. Look at the server's console in the cloud, or log in with your own key
> If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl delete machines.cluster.x-k8s.io web-1 -n shop
> If the login fails, look at the server in the cloud
> If the server is lost, delete its Machine. Never delete the cluster's only server, which holds the cluster's data: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"its RKEBootstrap cannot be reconciled": {changed(running(), func(s *facts.Snapshot) {
			s.CAPIMachine.Status.NodeRef.Name = "web-1"
			withBootstrap(s.CAPIMachine, rkev1.NameTakenReason, "the Secret b1-machine-plan does not belong to this object: delete it")
		}), `
! BootstrapConfigReady|NameTaken||the Secret b1-machine-plan does not belong to this object: delete it
. The server runs and its state is stored.
. Its RKEBootstrap b1 cannot be reconciled: NameTaken: the Secret b1-machine-plan does not belong to this object: delete it
> See its conditions: kubectl -n shop describe rkebootstraps.rke.cattle.io b1
`},
		"its RKEBootstrap cannot be reconciled, and it waits for that": {changed(machine(condition(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.WaitingForBootstrapReason, "no data yet", 2)), func(s *facts.Snapshot) {
			withBootstrap(s.CAPIMachine, rkev1.NameTakenReason, "there is a Secret")
		}), `
! BootstrapReady|WaitingForBootstrapData||no data yet
. no data yet
. Its RKEBootstrap b1 cannot be reconciled: NameTaken: there is a Secret
> See the state of the bootstrap data: kubectl -n shop describe machine.cluster.x-k8s.io web-1
> If you use your own Secret, set spec.bootstrap.dataSecretName of the CAPI Machine (or of the MachineDeployment's template)
> See its conditions: kubectl -n shop describe rkebootstraps.rke.cattle.io b1
`},
		"its control plane holds its RKEBootstrap": {changed(machine(condition(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.WaitingForBootstrapReason, "no data yet", 2)), func(s *facts.Snapshot) {
			withBootstrap(s.CAPIMachine, rkev1.ClusterSecretMissingReason, "no server is made")
			s.ControlPlane = &facts.Object{Conditions: []metav1.Condition{condition(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.ClusterSecretMissingReason, "it is gone", 2)}}
		}), `
! BootstrapReady|WaitingForBootstrapData||no data yet
. no data yet
. Its RKEBootstrap b1 cannot be reconciled: ClusterSecretMissing: no server is made
> See why its control plane is not ready: drover why cluster/store -n shop
> See its conditions: kubectl -n shop describe rkebootstraps.rke.cattle.io b1
`},
		"its NodeDriver has another name than its driver": {changed(machine(condition(rkev1.DriverReadyCondition, metav1.ConditionFalse, rkev1.DriverNotReadyReason, "not yet", 2)), func(s *facts.Snapshot) {
			s.Driver.Name, s.Driver.Spec.DisplayName = "our-do", "digitalocean"
		}), `
! DriverReady|DriverNotReady||not yet
. not yet
> See why the driver is not ready: drover why driver/our-do
`},
		"its node cannot be drained": {changed(running(), func(s *facts.Snapshot) {
			since := ago(2 * time.Minute)
			s.CAPIMachine.DeletionTimestamp = &since
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "DrainingNode", "Error draining Node, please check controller logs for errors", 2)}
			s.ControlPlane = clusterOf(condition(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason, "nothing answers at 10.0.0.1:6443", 2)).ControlPlane
		}), `
! |CAPIMachineDeleting||Error draining Node, please check controller logs for errors
. The server runs and its state is stored.
. Its CAPI Machine is being deleted; Cluster API has not deleted the infra machine yet.
. Error draining Node, please check controller logs for errors
. Its Node cannot be drained while the manager cannot reach the cluster's API: nothing answers at 10.0.0.1:6443
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
> Allow connections from the manager to the address in the message. Check firewalls, routes and spec.controlPlaneEndpoint of the RKECluster
> List the Machines and their labels: kubectl get machines.cluster.x-k8s.io -n shop --show-labels
> To remove the server without draining its pods: kubectl annotate machines.cluster.x-k8s.io web-1 -n shop machine.cluster.x-k8s.io/exclude-node-draining=
`},
		"its state is gone": {changed(running(), func(s *facts.Snapshot) {
			s.State, s.CAPIMachine.Status.NodeRef.Name = &facts.State{}, "web-1"
		}), `
! StateStored|StateMissing||
. The server was created, but its state Secret web-1-machine-state is missing. Login to the server needs this Secret.
> Restore the Secret web-1-machine-state from a backup, if one exists
> Or delete the machine. Drover looks for its server by tags and provider ID and removes it, or names it if its identity is not certain. A MachineSet or control plane then creates another machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"its node is silent": {changed(machine(condition(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.NodeSilentReason, "Job web-1-create-1 waits: its node n7 is silent", 9)), func(s *facts.Snapshot) {
			s.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1-create-1-x"}, Spec: corev1.PodSpec{NodeName: "n7"}}}
		}), `
! CreateJob|NodeSilent||Job web-1-create-1 waits: its node n7 is silent
. Job web-1-create-1 waits: its node n7 is silent
> See the state of the node: kubectl get node n7
> If the node does not come back: kubectl delete node n7
> If the node is off and will come back: kubectl taint node n7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
`},
		"of another attempt": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassTransient, "timeout"), func(s *facts.Snapshot) {
			s.State.Result.Attempt, s.Machine.Status.LastAttempt.EndTime = 1, nil
		}), `
! CreateJob|WaitingForRetry|Transient|timeout
. attempt 2 failed (Transient, CreateFailed): timeout. A failure that is usually temporary: a timeout, a broken connection or an internal error of the cloud
> Wait: the manager retries with increasing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop
`},
	}
}

func removeDecisions() map[string]decision {
	soon := ago(-90 * time.Second)
	return map[string]decision{
		"removing failed": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason, "attempt 1 failed", 3)), func(s *facts.Snapshot) {
			ended := ago(3 * time.Minute)
			s.Machine.Status.LastAttempt = &rkev1.AttemptStatus{Operation: "remove", Number: 1, Outcome: "Failed", Class: rkev1.ClassTransient, Message: "503", EndTime: &ended}
			s.Machine.Status.NextAttemptTime = &soon
		}), `
! DeleteJob|ServerMayExist|Transient|503
. attempt 1 failed
. Attempt 1 to remove the server ended 3m ago.
. The next attempt starts in 90s.
> Wait: the manager retries with increasing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop
> Look in the cloud for a server named web-1. If it belongs to this machine, remove it there by hand
> Only if no server is left, or you accept that one remains: drover abandon web-1 -n shop
`},
		"a host that its agent cleans": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForRetryReason, "attempt 1 failed", 3)), func(s *facts.Snapshot) {
			s.Cleaning = &facts.Cleaning{State: "in-progress", Running: "instruction clean since 2026-03-01T11:59:00Z", AgentSeen: s.Now.Add(-time.Hour)}
		}), `
! DeleteJob|WaitingForRetry||attempt 1 failed
. attempt 1 failed
. The agent's plan to clean the host is in-progress, at instruction clean since 2026-03-01T11:59:00Z. The agent last called the manager 60m ago; it calls every 3h.
> Read the whole log: drover logs web-1 -n shop
> When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop
`},
		"creating failed before it was deleted": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason, "cannot tell", 3)), func(s *facts.Snapshot) {
			s.Machine.Status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 4, Outcome: "Failed", Class: rkev1.ClassQuota, Message: "quota"}
		}), `
! DeleteJob|ServerMayExist||cannot tell
. cannot tell
> Look in the cloud for a server named web-1. If it belongs to this machine, remove it there by hand
> Only if no server is left, or you accept that one remains: drover abandon web-1 -n shop
`},
	}
}

func jobDecisions() map[string]decision {
	at := func() *facts.Snapshot {
		return atJob(metav1.ConditionUnknown, rkev1.JobRunningReason, "Job web-1-create-2 is running, attempt 2")
	}
	named := func(names ...string) func(*facts.Snapshot) {
		return func(s *facts.Snapshot) {
			s.Jobs = nil
			for _, name := range names {
				s.Jobs = append(s.Jobs, batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
		}
	}
	runs := func() *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	}
	return map[string]decision{
		"at work": {withJob(at(), runs()), `
! CreateJob|JobRunning||Job web-1-create-2 is running, attempt 2
. Job web-1-create-2 is running, attempt 2
> Follow the driver's log: drover logs web-1 -n shop -f
`},
		"gone, another is left": {changed(at(), named("web-1-create-1")), `
! CreateJob|JobMissing||
. The Job web-1-create-2 was running and does not exist any more. It was deleted.
> Drover creates a new Job. If it does not within a minute: drover retry web-1 -n shop
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"a newer one": {changed(at(), named("web-1-create-3", "web-1-create-2")), `
! CreateJob|JobRunning||Job web-1-create-2 is running, attempt 2
. Job web-1-create-2 is running, attempt 2
> Follow the driver's log: drover logs web-1 -n shop -f
`},
		"cannot be read": {changed(at(), func(s *facts.Snapshot) { s.Unread = []facts.Part{facts.JobsPart} }), `
! CreateJob|JobRunning||Job web-1-create-2 is running, attempt 2
. Job web-1-create-2 is running, attempt 2
> Follow the driver's log: drover logs web-1 -n shop -f
`},
		"gone, other things cannot be read": {changed(at(), func(s *facts.Snapshot) {
			s.Unread, s.Problems = []facts.Part{facts.ClusterPart}, []string{"clusters are forbidden"}
		}), `
! CreateJob|JobMissing||
. The Job web-1-create-2 was running and does not exist any more. It was deleted.
> Drover creates a new Job. If it does not within a minute: drover retry web-1 -n shop
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
	}
}

func jobElsewhereDecisions() map[string]decision {
	pending := func() *facts.Snapshot { return atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, "") }
	return map[string]decision{
		"in the fallback namespace": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason, "", 1)), func(s *facts.Snapshot) {
			s.Machine.Status.JobName = "refuge-uid-m-rm-1"
		}), `
! DeleteJob|InRefuge||
. The machine's namespace is being deleted and accepts no new Jobs. The Job refuge-uid-m-rm-1 removes the server from namespace drover-drivers.
> Look at the Job: kubectl -n drover-drivers describe job refuge-uid-m-rm-1
> Read its log: kubectl -n drover-drivers logs job/refuge-uid-m-rm-1 --all-containers
`},
		"being cancelled": {deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason,
			"the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node", 1)), `
! DeleteJob|JobCancelled||the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node
. the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node
> See its pod, which may take a minute to stop: kubectl -n shop get pods -l drover.cattle.io/machine-uid=uid-m -o wide
`},
		"image": {withJob(pending(), waitingPod("ErrImagePull", "not found")), `
! CreateJob|ErrImagePull||not found
. The image of the Job's pod cannot be pulled.
. not found
> Correct the image, registry or pull secret that the manager gives Jobs
> Look at the pod: kubectl -n shop describe pod web-1-create-2-abcde
`},
	}
}

func pauseDecisions() map[string]decision {
	paused := func(cluster, annotation bool) *facts.Snapshot {
		s := running()
		s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, condition(rkev1.PausedCondition, metav1.ConditionTrue, "Paused", "the reason", 2))
		s.Cluster.Spec.Paused = &cluster
		if annotation {
			s.Machine.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""}
		}
		return s
	}
	return map[string]decision{
		"the Cluster": {paused(true, false), `
! Paused|Paused||the reason
. The Cluster store is paused, so Drover does not reconcile the machine.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
`},
		"the Cluster, and the manager has not seen it": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassQuota, "quota exceeded"), func(s *facts.Snapshot) { s.Cluster.Spec.Paused = new(true) }), `
! Paused|Paused||
. The Cluster store is paused, so Drover does not reconcile the machine.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
`},
		"the machine": {paused(false, true), `
! Paused|Paused||the reason
. The machine has the annotation cluster.x-k8s.io/paused, so Drover does not reconcile it.
> Resume the machine: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"both": {paused(true, true), `
! Paused|Paused||the reason
. The Cluster store is paused, so Drover does not reconcile the machine.
. The machine has the annotation cluster.x-k8s.io/paused, so Drover does not reconcile it.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
> Resume the machine: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"the Cluster cannot be read": {changed(paused(true, false), func(s *facts.Snapshot) { s.Cluster = nil }), `
! Paused|Paused||the reason
. The Cluster or the machine is paused, so Drover does not reconcile the machine.
> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
> Resume the machine: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"the CAPI Machine": {changed(running(), func(s *facts.Snapshot) {
			s.CAPIMachine.Annotations, s.CAPIMachine.Status.NodeRef.Name = map[string]string{clusterv1.PausedAnnotation: ""}, "web-1"
		}), `
. The server runs and its state is stored.
. The CAPI Machine web-1 is paused (annotation cluster.x-k8s.io/paused). Cluster API does not reconcile or delete it until it is resumed.
> Resume the CAPI Machine: kubectl -n shop annotate machine.cluster.x-k8s.io web-1 cluster.x-k8s.io/paused-
`},
		"not any more": {changed(paused(false, false), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions[len(s.Machine.Status.Conditions)-1].Status = metav1.ConditionFalse
		}), `
. The server runs and its state is stored.
. Cluster API waits for the Node to join the cluster.
> Read the log of the server's bootstrap: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
`},
	}
}

// unowned is a machine that a CAPI Machine of another name names, with these conditions.
func unowned(conditions ...metav1.Condition) *facts.Snapshot {
	s := machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForOwnerReason, "no CAPI Machine owns this machine yet", 1))
	s.Machine.Labels, s.CAPIMachine.Name, s.CAPIMachine.Status.Conditions = nil, "one", conditions
	return s
}

// pausedOwner is one that is named by a CAPI Machine which says that it is paused.
func pausedOwner(cluster, annotated bool) *facts.Snapshot {
	s := unowned(condition(clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "Cluster spec.paused is set to true", 2))
	s.Cluster.Spec.Paused = &cluster
	if annotated {
		s.CAPIMachine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	return s
}

func namedDecisions() map[string]decision {
	const told = `
! ClusterReady|WaitingForOwner||Cluster spec.paused is set to true
. The CAPI Machine one names it but does not own it yet, because the CAPI Machine is paused.
. Cluster spec.paused is set to true
`
	const letCluster = "> Resume the Cluster: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{\"spec\":{\"paused\":false}}'\n"
	const letMachine = "> Resume the CAPI Machine: kubectl -n shop annotate machine.cluster.x-k8s.io one cluster.x-k8s.io/paused-\n"
	unread := func(s *facts.Snapshot) { s.Cluster = nil }
	return map[string]decision{
		"its Cluster is paused":            {pausedOwner(true, false), told + letCluster},
		"it is paused":                     {pausedOwner(false, true), told + letMachine},
		"both are paused":                  {pausedOwner(true, true), told + letCluster + letMachine},
		"its Cluster cannot be read":       {changed(pausedOwner(true, false), unread), told + letCluster},
		"it is paused, the Cluster unread": {changed(pausedOwner(true, true), unread), told + letMachine},
		"it has not seen that the Cluster goes on": {pausedOwner(false, false), told + `. The pause of the CAPI Machine and its Cluster has ended.
> Trigger a reconcile of the CAPI Machine: kubectl -n shop annotate machine.cluster.x-k8s.io one --overwrite woken=$(date +%s)
> If nothing changes, check whether Cluster API's controllers run
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"it has not been seen": {unowned(), `
! ClusterReady|WaitingForOwner||no CAPI Machine owns this machine yet
. The CAPI Machine one names it but does not own it yet. Cluster API sets the owner within seconds.
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io one
> If its conditions show no cause, check whether Cluster API's controllers run
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
	}
}

func ownerDecisions() map[string]decision {
	since := ago(2 * time.Minute)
	return map[string]decision{
		"deleted before a server was made": {changed(machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason,
			"the CAPI Machine web-1 is being deleted, so Drover creates no server for it", 1)), func(s *facts.Snapshot) {
			s.CAPIMachine.DeletionTimestamp = &since
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "WaitingForPreTerminateHook", "waiting for hook x", 2)}
			s.CAPIMachine.Annotations = map[string]string{clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/x": "y", clusterv1.PreDrainDeleteHookAnnotationPrefix + "/done": ""}
		}), `
! |CAPIMachineDeleting||waiting for hook x
. Its CAPI Machine is being deleted; Drover creates no server for it.
. waiting for hook x
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
> A hook is removed by its owner. As a last resort, if its owner no longer exists: kubectl annotate machines.cluster.x-k8s.io web-1 -n shop pre-terminate.delete.hook.machine.cluster.x-k8s.io/x-
`},
		"deleted, and cannot be read": {changed(machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason, "", 1)), func(s *facts.Snapshot) {
			s.CAPIMachine = nil
		}), `
! |CAPIMachineDeleting||
. Its CAPI Machine is being deleted; Drover creates no server for it.
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
`},
		"none": {changed(machine(), func(s *facts.Snapshot) { s.Machine.Labels, s.CAPIMachine = nil, nil }), `
! |NotReconciled||
. No manager has reconciled this machine yet.
. It waits for the CAPI Machine that owns it.
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
> If you created this object by hand, create a CAPI Machine whose spec.infrastructureRef names it
> If a MachineSet created it, Cluster API sets the owner within seconds. Otherwise check whether Cluster API's controllers run
`},
		"none yet": {changed(unowned(), func(s *facts.Snapshot) { s.CAPIMachine = nil }), `
! ClusterReady|WaitingForOwner||no CAPI Machine owns this machine yet
. It waits for the CAPI Machine that owns it.
. no CAPI Machine owns this machine yet
> If you created this object by hand, create a CAPI Machine whose spec.infrastructureRef names it
> If a MachineSet created it, Cluster API sets the owner within seconds. Otherwise check whether Cluster API's controllers run
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
	}
}

func oddDecisions() map[string]decision {
	return map[string]decision{
		"a reason of a newer manager": {machine(condition(rkev1.DriverReadyCondition, metav1.ConditionFalse, "FromTheFuture", "something new", 1)), `
! DriverReady|FromTheFuture||something new
. something new
> See all conditions of the machine: kubectl -n shop describe digitaloceanmachines.rke-machine.cattle.io web-1
`},
		"a reason of a newer Job": {atJob(metav1.ConditionFalse, "FromTheFuture", "something new"), `
! CreateJob|FromTheFuture||something new
. something new
> Read the whole log: drover logs web-1 -n shop
`},
		"stopped half way": {machine(done(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, 9)), `
! DriverReady|||
. The step DriverReady is not done yet. The manager works on it, or the manager has stopped.
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"ready, the providerID not asked for": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions[:6], done(rkev1.ReadyCondition, rkev1.ReadyReason, 9))
		}), `
. The server runs and its state is stored.
. Cluster API waits for the Node to join the cluster.
> Read the log of the server's bootstrap: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
`},
		"waits for its node": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions[6] = condition(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.WaitingForNodeReason, "", 9)
		}), `
! ProviderIDKnown|WaitingForNode||
. The step ProviderIDKnown is not done: WaitingForNode.
> Read the log of the server's bootstrap: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
> Drover finds the Node by the server's addresses or name. If neither matches, label the Node rke.cattle.io/machine=UID-OF-THE-CAPI-MACHINE, or set spec.providerIDTemplate of the NodeDriver digitalocean
`},
	}
}

func oddReasonDecisions() map[string]decision {
	return map[string]decision{
		"finalizers of others": {changed(deleting(done(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, 1)), func(s *facts.Snapshot) {
			s.Machine.Finalizers = []string{"example.com/billing", rkev1.MachineFinalizer}
		}), `
! |Finalizers||
. The server is removed. The object waits for its finalizers: example.com/billing, drover.cattle.io/machine.
> The object is deleted within seconds. A finalizer other than drover.cattle.io/machine belongs to another controller
> Check whether Drover's manager runs, and read its log: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
	}
}

// TestAhead_says tells of the machine that asks first, whatever that does at the moment.
func TestAhead_says(t *testing.T) {
	later, past := metav1.NewTime(now.Add(7*time.Minute)), metav1.NewTime(now.Add(-time.Minute))
	for name, c := range map[string]struct {
		last *rkev1.AttemptStatus
		next *metav1.Time
		want []string
	}{
		"waits": {&rkev1.AttemptStatus{Operation: "create", Number: 3, Class: rkev1.ClassQuota, Message: "droplet limit"}, &later,
			[]string{"Machine web-0 retries first: the cloud rejected its attempt 3 (Quota): droplet limit", "It retries in 7m."}},
		"is due":   {nil, &past, []string{"Machine web-0 retries first", "Its retry is due."}},
		"asks now": {nil, nil, []string{"Machine web-0 retries first", "It retries now."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := atJob(metav1.ConditionFalse, rkev1.WaitingForQuotaReason, "no room")
			ahead := *s.Machine
			ahead.Name, ahead.Status.LastAttempt, ahead.Status.NextAttemptTime = "web-0", c.last, c.next
			s.Ahead = &ahead
			report := explained(s, "drover")
			require.Equal(t, c.want, report.Verdict[len(report.Verdict)-2:])
			require.Contains(t, report.Next[1], "let this machine retry first, immediately: drover retry")
		})
	}
}

// Until when a Job is waited for that hangs, with its driver or with a server that takes no login: the deadline of the Job's pod counts from when a node took it.
func TestDecide_deadlineOfTheJob(t *testing.T) {
	s := atJob(metav1.ConditionUnknown, rkev1.JobRunningReason, "Job web-1-create-2 is running, attempt 2")
	s.Jobs = []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "web-1-create-2"}}}
	s.Pods = []corev1.Pod{{Spec: corev1.PodSpec{ActiveDeadlineSeconds: new(int64(3600))}, Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: s.Now.Add(-20 * time.Minute)}}}}
	until := s.Now.Add(40 * time.Minute).UTC().Format(time.RFC3339)
	ends := "The Job's deadline is " + until + " (in 40m). It is stopped then, even if it waits for the driver or the server."
	require.Equal(t, []string{"Job web-1-create-2 is running, attempt 2", ends}, explained(s, "drover").Verdict)
}
