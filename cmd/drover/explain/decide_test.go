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

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
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
		"credential": credentialDecisions(), "refused credential": refusedCredentialDecisions(),
		"attempt": attemptDecisions(), "end": endDecisions(), "refusal": refusalDecisions(), "remove": removeDecisions(),
		"job": jobDecisions(), "job elsewhere": jobElsewhereDecisions(), "pause": pauseDecisions(), "owner": ownerDecisions(), "named": namedDecisions(),
		"odd": oddDecisions(), "odd reason": oddReasonDecisions(),
	} {
		for of, c := range cases {
			t.Run(name+"/"+of, func(t *testing.T) {
				require.Equal(t, strings.TrimPrefix(c.want, "\n"), told(explain.Machine(c.snapshot, "drover")))
			})
		}
	}
}

// credential is a machine that waits for its credential.
func credential(reason, message, named string) *facts.Snapshot {
	s := machine(condition(rkev1.CredentialReadyCondition, metav1.ConditionFalse, reason, message, 2))
	s.Machine.Spec.Common.CloudCredentialSecretName = named
	return s
}

func credentialDecisions() map[string]decision {
	return map[string]decision{
		"missing": {credential(rkev1.CredentialMissingReason, "the credential Secret do-token is not there: create it in namespace shop with the keys accessToken", "do-token"), `
! CredentialReady|CredentialMissing||the credential Secret do-token is not there: create it in namespace shop with the keys accessToken
. The cloud credential Secret do-token does not exist.
. the credential Secret do-token is not there: create it in namespace shop with the keys accessToken
> Make the Secret do-token, with one key per credential field, from files that hold nothing but the value: kubectl -n shop create secret generic do-token --from-file=FIELD=FILE
> Or name an existing one in a new machine template
`},
		"of another namespace missing": {credential(rkev1.CredentialNotSharedReason, "", "clouds:do"), `
! CredentialReady|CredentialNotShared||
. The cloud credential clouds/do is in another namespace and may not be used from shop.
> Whoever owns it can share it: kubectl -n clouds annotate secret do drover.cattle.io/allowed-namespaces=shop
> Or make a credential of your own in namespace shop
`},
		"none named": {credential(rkev1.CredentialMissingReason, "driver digitalocean needs a credential: name its Secret in spec.common.cloudCredentialSecretName, with the keys accessToken", ""), `
! CredentialReady|CredentialMissing||driver digitalocean needs a credential: name its Secret in spec.common.cloudCredentialSecretName, with the keys accessToken
. The driver needs a cloud credential, and the machine names none.
. driver digitalocean needs a credential: name its Secret in spec.common.cloudCredentialSecretName, with the keys accessToken
> Make a Secret with the keys the message above names, from files that hold nothing but the value: kubectl -n shop create secret generic NAME --from-file=FIELD=FILE
> Name it in spec.common.cloudCredentialSecretName of a new machine template
> Machine templates cannot be edited: put a copy with the right values beside the present one and name it in the MachineDeployment, which then replaces its machines. Get the present one: kubectl -n shop get digitaloceanmachinetemplates.rke-machine.cattle.io -o yaml
`},
		"lacks a key": {credential(rkev1.CredentialInvalidReason, "Secret do-token: field accessToken is missing", "do-token"), `
! CredentialReady|CredentialInvalid||Secret do-token: field accessToken is missing
. The cloud credential do-token lacks a field the driver needs, or has one it does not know.
. Secret do-token: field accessToken is missing
> Look at the credential: kubectl -n shop describe secret do-token
> Add what the message above names; it is read again as soon as it changes
`},
	}
}

func refusedCredentialDecisions() map[string]decision {
	return map[string]decision{
		"refused by the cloud": {failed(rkev1.AttemptsExhaustedReason, rkev1.ClassUnauthorized, "401 Unable to authenticate you"), `
! CreateJob|AttemptsExhausted|Unauthorized|401 Unable to authenticate you
. Attempt 2 to create the server: failed (Unauthorized, CreateFailed) 3m ago: 401 Unable to authenticate you
. The driver could not make the server.
. The cloud does not accept the credential, or it lacks a permission.
. Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.
> Put a valid credential into Secret do-token, which is used from the next attempt on (values are base64): kubectl -n shop edit secret do-token
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"refused by the cloud, and gone": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassUnauthorized, "401"), func(s *facts.Snapshot) {
			s.Credential.Found = false
		}), `
! CreateJob|WaitingForRetry|Unauthorized|401
. Attempt 2 to create the server: failed (Unauthorized, CreateFailed) 3m ago: 401
. The driver could not make the server.
. The cloud does not accept the credential, or it lacks a permission.
. The last attempt failed; it will be tried again.
> Make the Secret do-token, with one key per credential field, from files that hold nothing but the value: kubectl -n shop create secret generic do-token --from-file=FIELD=FILE
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
`},
		"refused by the cloud, in the spec": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassUnauthorized, "401"), func(s *facts.Snapshot) {
			s.Machine.Spec.Common.CloudCredentialSecretName, s.Credential = "", nil
		}), `
! CreateJob|WaitingForRetry|Unauthorized|401
. Attempt 2 to create the server: failed (Unauthorized, CreateFailed) 3m ago: 401
. The driver could not make the server.
. The cloud does not accept the credential, or it lacks a permission.
. The last attempt failed; it will be tried again.
> The credential is in the machine's own spec: give one that is valid, best as a Secret named in spec.common.cloudCredentialSecretName, in a new machine template
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
`},
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
. Attempt 2 to create the server: failed (Transient, CreateFailed) 3m ago: 502 Bad Gateway
. The driver could not make the server.
. A failure that usually goes away: a timeout, a broken connection or an error inside the cloud.
. The last attempt failed; it will be tried again.
. The next attempt starts in 90s.
> Wait: attempts go on with growing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"due": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassThrottled, "429"), func(s *facts.Snapshot) {
			s.Machine.Status.NextAttemptTime = &due
		}), `
! CreateJob|WaitingForRetry|Throttled|429
. Attempt 2 to create the server: failed (Throttled, CreateFailed) 3m ago: 429
. The driver could not make the server.
. The cloud asks for fewer requests.
. The last attempt failed; it will be tried again.
. The next attempt is due.
> Wait: attempts go on with growing delays
> If it lasts, other users of the same credential may use the limit up
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"invalid": {failed(rkev1.AttemptsExhaustedReason, rkev1.ClassInvalid, "422 region nyc99 is not available"), `
! CreateJob|AttemptsExhausted|Invalid|422 region nyc99 is not available
. Attempt 2 to create the server: failed (Invalid, CreateFailed) 3m ago: 422 region nyc99 is not available
. The driver could not make the server.
. The cloud or the driver does not accept what was asked for.
. Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.
> Correct what the driver's message names (region, size, image, a missing option); trying again without a change fails again
> Machine templates cannot be edited: put a copy with the right values beside the present one and name it in the MachineDeployment, which then replaces its machines. Get the present one: kubectl -n shop get digitaloceanmachinetemplates.rke-machine.cattle.io -o yaml
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"capacity": {failed(rkev1.WaitingForRetryReason, rkev1.ClassCapacity, "no hosts"), `
! CreateJob|WaitingForRetry|Capacity|no hosts
. Attempt 2 to create the server: failed (Capacity, CreateFailed) 3m ago: no hosts
. The driver could not make the server.
. The cloud has no capacity for this kind of server in this place now.
. The last attempt failed; it will be tried again.
> Wait, or choose another size, zone or region in a new machine template
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
`},
	}
}

func endDecisions() map[string]decision {
	return map[string]decision{
		"bootstrap failed": {changed(failed(rkev1.AttemptsExhaustedReason, rkev1.ClassUnknown, "exit status 1"), func(s *facts.Snapshot) {
			s.State.Result.Reason = "BootstrapFailed"
		}), `
! CreateJob|AttemptsExhausted|Unknown|exit status 1
. Attempt 2 to create the server: failed (Unknown, BootstrapFailed) 3m ago: exit status 1
. The bootstrap script failed on the server.
. Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.
> Read the whole log: drover logs web-1 -n shop
> Look at the server: drover ssh web-1 -n shop
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"nobody can tell whether there is a server": {changed(failed(rkev1.ServerMayExistReason, rkev1.ClassInvalid, "its answer is not known"), func(s *facts.Snapshot) {
			s.State.Result.Reason = rkev1.ServerMayExistReason
		}), `
! CreateJob|ServerMayExist|Invalid|its answer is not known
. Attempt 2 to create the server: failed (Invalid, ServerMayExist) 3m ago: its answer is not known
. A server may be left, and neither the driver's record nor a search in the cloud can tell: no other is made before you have looked.
> Look in the cloud for a server called web-1, and remove it there by hand if it is this machine's
> When none is left, go on: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
`},
		"a class has nothing to add to a host that is taken": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassTransient, "it belongs to machine web-0"), func(s *facts.Snapshot) {
			s.State.Result.Reason = "HostTaken"
		}), `
! CreateJob|WaitingForRetry|Transient|it belongs to machine web-0
. Attempt 2 to create the server: failed (Transient, HostTaken) 3m ago: it belongs to machine web-0
. The host belongs to another machine, so nothing was run on it.
. The last attempt failed; it will be tried again.
> Remove the machine that the message names, or give this one another host in a new machine template; then it is tried again by itself
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"a machine without a template": {changed(failed(rkev1.AttemptsExhaustedReason, rkev1.ClassInvalid, "422 region"), func(s *facts.Snapshot) {
			s.Machine.Annotations = nil
		}), `
! CreateJob|AttemptsExhausted|Invalid|422 region
. Attempt 2 to create the server: failed (Invalid, CreateFailed) 3m ago: 422 region
. The driver could not make the server.
. The cloud or the driver does not accept what was asked for.
. Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.
> Correct what the driver's message names (region, size, image, a missing option); trying again without a change fails again
> Correct the machine itself, which can be edited until it has a server: kubectl -n shop edit digitaloceanmachines.rke-machine.cattle.io web-1
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"a credential is corrected before a log is read": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassUnauthorized, "401"), func(s *facts.Snapshot) {
			s.State.Result.Reason = "PreCreateCheckFailed"
		}), `
! CreateJob|WaitingForRetry|Unauthorized|401
. Attempt 2 to create the server: failed (Unauthorized, PreCreateCheckFailed) 3m ago: 401
. The driver's own checks before creating failed; no server was asked for.
. The cloud does not accept the credential, or it lacks a permission.
. The last attempt failed; it will be tried again.
> Put a valid credential into Secret do-token, which is used from the next attempt on (values are base64): kubectl -n shop edit secret do-token
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Read the whole log: drover logs web-1 -n shop
`},
		"a server that the cloud lists no more": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions,
				condition(rkev1.BootstrapDeliveredCondition, metav1.ConditionUnknown, rkev1.NotVerifiedReason, "contact is off", 2),
				condition(rkev1.ServerExistsCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason, "the cloud lists no server", 2))
		}), `
! ServerExists|ServerNotListed||the cloud lists no server
. The cloud does not list the server any more.
. the cloud lists no server
> Look for it at the cloud; if it lives, give it back the tags that docs/drivers.md names
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"a server of which nothing more is known": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, condition(rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason, "not yet", 2))
			s.CAPIMachine.Status.NodeRef.Name = "web-1"
			s.ManagerSeen = s.Now.Add(-5 * time.Minute)
		}), `
. Drover's manager has not been at work for 5m: what follows is of before.
. The server runs and its state is stored.
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"generic has no region": {changed(failed(rkev1.AttemptsExhaustedReason, rkev1.ClassInvalid, "no such host"), func(s *facts.Snapshot) {
			s.Machine.Kind, s.Driver = facts.Kind{Name: "GenericMachine", Resource: "genericmachines", Singular: "genericmachine"}, nil
		}), `
! CreateJob|AttemptsExhausted|Invalid|no such host
. Attempt 2 to create the server: failed (Invalid, CreateFailed) 3m ago: no such host
. The driver could not make the server.
. The host, or what the machine says of it, cannot be used.
. Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.
> Correct what the driver's message names (address, port, user or SSH key of the host); trying again without a change fails again
> Machine templates cannot be edited: put a copy with the right values beside the present one and name it in the MachineDeployment, which then replaces its machines. Get the present one: kubectl -n shop get genericmachinetemplates.rke-machine.cattle.io -o yaml
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Let Cluster API replace the machine: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"its node is silent": {changed(machine(condition(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.NodeSilentReason, "Job web-1-create-1 waits: its node n7 is silent", 9)), func(s *facts.Snapshot) {
			s.Pods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1-create-1-x"}, Spec: corev1.PodSpec{NodeName: "n7"}}}
		}), `
! CreateJob|NodeSilent||Job web-1-create-1 waits: its node n7 is silent
. The node of the Job's pod is silent, and so the Job cannot end.
. Job web-1-create-1 waits: its node n7 is silent
> Look at the node: kubectl get node n7
> If its computer is off for good: kubectl delete node n7
> If it is off, and will come back: kubectl taint node n7 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
`},
		"cancelled": {changed(failed(rkev1.JobCancelledReason, "", ""), func(s *facts.Snapshot) {
			s.Machine.Status.LastAttempt.Outcome, s.State.Result.Reason = string(state.Cancelled), "Cancelled"
		}), `
! CreateJob|JobCancelled||
. Attempt 2 to create the server: cancelled 3m ago
. The Job was cancelled.
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"ended without a word": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassTransient, "the pod was evicted"), func(s *facts.Snapshot) {
			s.State.Result = nil
		}), `
! CreateJob|WaitingForRetry|Transient|the pod was evicted
. Attempt 2 to create the server: failed (Transient) 3m ago: the pod was evicted
. A failure that usually goes away: a timeout, a broken connection or an error inside the cloud.
. The last attempt failed; it will be tried again.
> Wait: attempts go on with growing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
		"of another attempt": {changed(failed(rkev1.WaitingForRetryReason, rkev1.ClassTransient, "timeout"), func(s *facts.Snapshot) {
			s.State.Result.Attempt, s.Machine.Status.LastAttempt.EndTime = 1, nil
		}), `
! CreateJob|WaitingForRetry|Transient|timeout
. Attempt 2 to create the server: failed (Transient): timeout
. A failure that usually goes away: a timeout, a broken connection or an error inside the cloud.
. The last attempt failed; it will be tried again.
> Wait: attempts go on with growing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
`},
	}
}

func refusalDecisions() map[string]decision {
	due := ago(time.Minute)
	return map[string]decision{
		"the next Job is refused": {changed(failed("JobRefused", rkev1.ClassTransient, "timeout"), func(s *facts.Snapshot) {
			s.Machine.Status.NextAttemptTime = &due
			s.Machine.Status.Conditions[4].Message = `the Job cannot be made: admission webhook "policy.example" denied the request`
		}), `
! CreateJob|JobRefused||the Job cannot be made: admission webhook "policy.example" denied the request
. The management cluster refuses the Job or what it needs.
. the Job cannot be made: admission webhook "policy.example" denied the request
> The message above names the policy or quota: correct it for namespace shop
> Pods of Drover meet the restricted Pod Security Standard
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
. Attempt 1 to remove the server: failed (Transient) 3m ago: 503
. A failure that usually goes away: a timeout, a broken connection or an error inside the cloud.
. The server may still be there; removing it is tried again.
. The next attempt starts in 90s.
> Wait: attempts go on with growing delays
> Read the whole log: drover logs web-1 -n shop
> When the cause is removed, start the next attempt at once: drover retry web-1 -n shop
> Look in the cloud for a server called web-1, and remove it there by hand if it is this machine's
> Only if no server is left, or you accept that one is: drover abandon web-1 -n shop
`},
		"removing lacks the credential": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.CredentialMissingReason, "the credential Secret do-token is not there", 3)), func(s *facts.Snapshot) {
			s.Machine.Status.LastAttempt = &rkev1.AttemptStatus{Operation: "remove", Number: 1, Outcome: "Failed", Class: rkev1.ClassTransient, Message: "503"}
		}), `
! DeleteJob|CredentialMissing||the credential Secret do-token is not there
. The cloud credential Secret do-token does not exist.
. the credential Secret do-token is not there
> Make the Secret do-token, with one key per credential field, from files that hold nothing but the value: kubectl -n shop create secret generic do-token --from-file=FIELD=FILE
> If namespace shop is being deleted, nothing can be made in it. Lend the machine a credential of another namespace: kubectl -n NAMESPACE annotate secret NAME drover.cattle.io/allowed-namespaces=shop
> And name that one: kubectl -n shop patch digitaloceanmachines.rke-machine.cattle.io web-1 --type merge -p '{"spec":{"common":{"cloudCredentialSecretName":"NAMESPACE:NAME"}}}'
> Only if no server is left, or you accept that one is: drover abandon web-1 -n shop
`},
		"creating failed before it was deleted": {changed(deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason, "cannot tell", 3)), func(s *facts.Snapshot) {
			s.Machine.Status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 4, Outcome: "Failed", Class: rkev1.ClassQuota, Message: "quota"}
		}), `
! DeleteJob|ServerMayExist||cannot tell
. A server may be left, and neither the driver's record nor a search in the cloud can tell.
. cannot tell
> Look in the cloud for a server called web-1, and remove it there by hand if it is this machine's
> Only if no server is left, or you accept that one is: drover abandon web-1 -n shop
`},
	}
}

func jobDecisions() map[string]decision {
	at := func() *facts.Snapshot {
		return atJob(metav1.ConditionUnknown, rkev1.JobRunningReason, "Job web-1-create-2 is under way, attempt 2")
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
! CreateJob|JobRunning||Job web-1-create-2 is under way, attempt 2
. A Job is at work.
. Job web-1-create-2 is under way, attempt 2
> Watch what the driver says: drover logs web-1 -n shop -f
`},
		"gone": {at(), `
! CreateJob|JobMissing||
. The Job web-1-create-2 is gone although it was said to be at work: someone deleted it.
> Drover starts another one; if not within a minute: drover retry web-1 -n shop
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"gone, another is left": {changed(at(), named("web-1-create-1")), `
! CreateJob|JobMissing||
. The Job web-1-create-2 is gone although it was said to be at work: someone deleted it.
> Drover starts another one; if not within a minute: drover retry web-1 -n shop
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"a newer one": {changed(at(), named("web-1-create-3", "web-1-create-2")), `
! CreateJob|JobRunning||Job web-1-create-2 is under way, attempt 2
. A Job is at work.
. Job web-1-create-2 is under way, attempt 2
> Watch what the driver says: drover logs web-1 -n shop -f
`},
		"cannot be read": {changed(at(), func(s *facts.Snapshot) { s.Unread = []facts.Part{facts.JobsPart} }), `
! CreateJob|JobRunning||Job web-1-create-2 is under way, attempt 2
. A Job is at work.
. Job web-1-create-2 is under way, attempt 2
> Watch what the driver says: drover logs web-1 -n shop -f
`},
		"gone, other things cannot be read": {changed(at(), func(s *facts.Snapshot) {
			s.Unread, s.Problems = []facts.Part{facts.ClusterPart}, []string{"clusters are forbidden"}
		}), `
! CreateJob|JobMissing||
. The Job web-1-create-2 is gone although it was said to be at work: someone deleted it.
> Drover starts another one; if not within a minute: drover retry web-1 -n shop
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
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
. The machine's namespace is being deleted and takes no Job any more: the Job refuge-uid-m-rm-1 removes the server from namespace drover-drivers.
> Look at the Job: kubectl -n drover-drivers describe job refuge-uid-m-rm-1
> Read its log: kubectl -n drover-drivers logs job/refuge-uid-m-rm-1 --all-containers
`},
		"being cancelled": {deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobCancelledReason,
			"the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node", 1)), `
! DeleteJob|JobCancelled||the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node
. The machine is deleted while its server was being made: the create Job is ended first, so that what it knows is saved and no server is lost.
. the pod web-1-create-2-x of the create Job has not ended yet; if its node n1 is gone for good, delete the Node
> See its pod, which may take a minute to end: kubectl -n shop get pods -l drover.cattle.io/machine-uid=uid-m -o wide
`},
		"image": {withJob(pending(), waitingPod("ErrImagePull", "not found")), `
! CreateJob|ErrImagePull||not found
. The image of the Job's pod cannot be pulled.
. not found
> Correct the image, registry or pull secret that the manager gives Jobs
> Look at the pod: kubectl -n shop describe pod web-1-create-2-abcde
`},
		"the manager says image": {atJob(metav1.ConditionUnknown, rkev1.ImageReason, "Job web-1-create-2 waits: not found"), `
! CreateJob|ImageUnavailable||Job web-1-create-2 waits: not found
. The image of the Job's pod cannot be pulled.
. Job web-1-create-2 waits: not found
> Correct the image, registry or pull secret that the manager gives Jobs
> Look at the pod: kubectl -n shop describe pods -l batch.kubernetes.io/job-name=web-1-create-2
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
. Nothing happens: the Cluster store is paused.
> Let the Cluster go on: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
`},
		"the machine": {paused(false, true), `
! Paused|Paused||the reason
. Nothing happens: the machine has the annotation cluster.x-k8s.io/paused.
> Let the machine go on: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"both": {paused(true, true), `
! Paused|Paused||the reason
. Nothing happens: the Cluster store is paused.
. Nothing happens: the machine has the annotation cluster.x-k8s.io/paused.
> Let the Cluster go on: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
> Let the machine go on: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"the Cluster cannot be read": {changed(paused(true, false), func(s *facts.Snapshot) { s.Cluster = nil }), `
! Paused|Paused||the reason
. Nothing happens: the Cluster or the machine is paused.
> Let the Cluster go on: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{"spec":{"paused":false}}'
> Let the machine go on: kubectl -n shop annotate digitaloceanmachines.rke-machine.cattle.io web-1 cluster.x-k8s.io/paused-
`},
		"not any more": {changed(paused(false, false), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions[len(s.Machine.Status.Conditions)-1].Status = metav1.ConditionFalse
		}), `
. The server runs and its state is stored.
. Cluster API waits for its node to join the cluster.
> See what the server's bootstrap did: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
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
. The CAPI Machine one names it, but is paused and so does not own it yet.
. Cluster spec.paused is set to true
`
	const letCluster = "> Let the Cluster go on: kubectl -n shop patch cluster.cluster.x-k8s.io store --type merge -p '{\"spec\":{\"paused\":false}}'\n"
	const letMachine = "> Let the CAPI Machine go on: kubectl -n shop annotate machine.cluster.x-k8s.io one cluster.x-k8s.io/paused-\n"
	unread := func(s *facts.Snapshot) { s.Cluster = nil }
	return map[string]decision{
		"its Cluster is paused":            {pausedOwner(true, false), told + letCluster},
		"it is paused":                     {pausedOwner(false, true), told + letMachine},
		"both are paused":                  {pausedOwner(true, true), told + letCluster + letMachine},
		"its Cluster cannot be read":       {changed(pausedOwner(true, false), unread), told + letCluster},
		"it is paused, the Cluster unread": {changed(pausedOwner(true, true), unread), told + letMachine},
		"it has not seen that the Cluster goes on": {pausedOwner(false, false), told + `. Neither it nor its Cluster is paused any more.
> Any change wakes it: kubectl -n shop annotate machine.cluster.x-k8s.io one --overwrite woken=$(date +%s)
> If nothing changes then, see whether Cluster API's controllers run
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"it has not been seen": {unowned(), `
! ClusterReady|WaitingForOwner||no CAPI Machine owns this machine yet
. The CAPI Machine one names it, and does not own it yet: Cluster API sets the owner within seconds.
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io one
> If that tells nothing, see whether Cluster API's controllers run
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
	}
}

func ownerDecisions() map[string]decision {
	since := ago(2 * time.Minute)
	return map[string]decision{
		"deleted before a server was made": {changed(machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason,
			"the CAPI Machine web-1 is being deleted: no server is made for it", 1)), func(s *facts.Snapshot) {
			s.CAPIMachine.DeletionTimestamp = &since
			s.CAPIMachine.Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "WaitingForPreTerminateHook", "waiting for hook x", 2)}
		}), `
! |CAPIMachineDeleting||waiting for hook x
. Its CAPI Machine is being deleted; no server is made for it any more.
. waiting for hook x
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
`},
		"deleted, and cannot be read": {changed(machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason, "", 1)), func(s *facts.Snapshot) {
			s.CAPIMachine = nil
		}), `
! |CAPIMachineDeleting||
. Its CAPI Machine is being deleted; no server is made for it any more.
> See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1
`},
		"none": {changed(machine(), func(s *facts.Snapshot) { s.Machine.Labels, s.CAPIMachine = nil, nil }), `
! |NotReconciled||
. No manager has looked at this machine yet.
. It waits for the CAPI Machine that owns it.
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
> If you made this object by hand: make a CAPI Machine whose spec.infrastructureRef names it
> If a MachineSet made it, Cluster API sets the owner within seconds: see whether Cluster API's controllers run
`},
		"none yet": {changed(unowned(), func(s *facts.Snapshot) { s.CAPIMachine = nil }), `
! ClusterReady|WaitingForOwner||no CAPI Machine owns this machine yet
. It waits for the CAPI Machine that owns it.
. no CAPI Machine owns this machine yet
> If you made this object by hand: make a CAPI Machine whose spec.infrastructureRef names it
> If a MachineSet made it, Cluster API sets the owner within seconds: see whether Cluster API's controllers run
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"the Cluster is missing": {changed(machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForClusterReason, "the Cluster store is not there", 1)), func(s *facts.Snapshot) {
			s.Cluster = nil
		}), `
! ClusterReady|WaitingForCluster||the Cluster store is not there
. It waits for the CAPI Cluster store, which does not exist or is not named on the CAPI Machine.
. the Cluster store is not there
> See whether the Cluster exists: kubectl -n shop get cluster.cluster.x-k8s.io store
> The CAPI Machine must name it in spec.clusterName
`},
	}
}

func oddDecisions() map[string]decision {
	return map[string]decision{
		"a reason of a newer manager": {machine(condition(rkev1.DriverReadyCondition, metav1.ConditionFalse, "FromTheFuture", "something new", 1)), `
! DriverReady|FromTheFuture||something new
. The step DriverReady is not done: FromTheFuture.
. something new
> See all the manager says of it: kubectl -n shop describe digitaloceanmachines.rke-machine.cattle.io web-1
`},
		"a reason of a newer Job": {atJob(metav1.ConditionFalse, "FromTheFuture", "something new"), `
! CreateJob|FromTheFuture||something new
. The step CreateJob is not done: FromTheFuture.
. something new
> Read the whole log: drover logs web-1 -n shop
`},
		"no reason": {machine(condition(rkev1.DriverReadyCondition, metav1.ConditionFalse, "", "", 1)), `
! DriverReady|||
. The step DriverReady was not reached yet; the manager works on it or has stopped.
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"stopped half way": {machine(done(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, 9)), `
! DriverReady|||
. The step DriverReady was not reached yet; the manager works on it or has stopped.
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"ready, the providerID not asked for": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions[:6], done(rkev1.ReadyCondition, rkev1.ReadyReason, 9))
		}), `
. The server runs and its state is stored.
. Cluster API waits for its node to join the cluster.
> See what the server's bootstrap did: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
`},
		"waits for its node": {changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions[6] = condition(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, rkev1.WaitingForNodeReason, "", 9)
		}), `
! ProviderIDKnown|WaitingForNode||
. The server runs. Its providerID is not known from the driver, so Drover waits for its node to join the cluster.
> See what the server's bootstrap did: drover ssh web-1 -n shop -- 'cloud-init status --long || journalctl -b -n 50'
> The node is found by the server's addresses or name; where it has neither, label it rke.cattle.io/machine=UID-OF-THE-CAPI-MACHINE, or set spec.providerIDTemplate of the NodeDriver digitalocean
`},
	}
}

func oddReasonDecisions() map[string]decision {
	return map[string]decision{
		"finalizers of others": {changed(deleting(done(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, 1)), func(s *facts.Snapshot) {
			s.Machine.Finalizers = []string{"example.com/billing", rkev1.MachineFinalizer}
		}), `
! |Finalizers||
. The server is gone; the object waits for its finalizers: example.com/billing, drover.cattle.io/machine.
> It goes within seconds; a finalizer that is not drover.cattle.io/machine belongs to another controller
> See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager
`},
		"namesakes": {atJob(metav1.ConditionFalse, rkev1.NameTakenReason, "there is a Job web-1-create-2 that is not of this machine: delete it"), `
! CreateJob|NameTaken||there is a Job web-1-create-2 that is not of this machine: delete it
. Another machine of this namespace, or somebody else, already uses a name that is made from web-1.
. there is a Job web-1-create-2 that is not of this machine: delete it
> The message above names the object. See whether it is another machine's: drover get web-1 -n shop
> Delete one of the two machines, or give it another name; never a Secret web-1-machine-state, which is all that is known of a server. A MachineSet chooses another name when its machine is deleted: kubectl -n shop delete machine.cluster.x-k8s.io web-1
`},
		"an edited spec": {machine(condition(rkev1.DriverReadyCondition, metav1.ConditionFalse, rkev1.SpecInvalidReason, "spec is not what driver digitalocean takes: size: 3", 1)), `
! DriverReady|SpecInvalid||spec is not what driver digitalocean takes: size: 3
. The machine's spec cannot be used.
. spec is not what driver digitalocean takes: size: 3
> The message above names the field. See what fields there are: kubectl explain digitaloceanmachines.spec --api-version=rke-machine.cattle.io/v1
> Machine templates cannot be edited: put a copy with the right values beside the present one and name it in the MachineDeployment, which then replaces its machines. Get the present one: kubectl -n shop get digitaloceanmachinetemplates.rke-machine.cattle.io -o yaml
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
			[]string{"Machine web-0 asks first: its attempt 3 was refused (Quota): droplet limit", "It asks again in 7m."}},
		"is due":   {nil, &past, []string{"Machine web-0 asks first", "It is due to ask again."}},
		"asks now": {nil, nil, []string{"Machine web-0 asks first", "It asks again now."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := atJob(metav1.ConditionFalse, rkev1.WaitingForQuotaReason, "no room")
			ahead := *s.Machine
			ahead.Name, ahead.Status.LastAttempt, ahead.Status.NextAttemptTime = "web-0", c.last, c.next
			s.Ahead = &ahead
			report := explain.Machine(s, "drover")
			require.Equal(t, c.want, report.Verdict[len(report.Verdict)-2:])
			require.Contains(t, report.Next[1], "let this machine ask next, at once: drover retry")
		})
	}
}

// Until when a driver that hangs is waited for: the deadline of the Job's pod counts from when a node took it.
func TestDecide_deadlineOfTheJob(t *testing.T) {
	s := atJob(metav1.ConditionUnknown, rkev1.JobRunningReason, "Job web-1-create-2 is under way, attempt 2")
	s.Jobs = []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "web-1-create-2"}}}
	s.Pods = []corev1.Pod{{Spec: corev1.PodSpec{ActiveDeadlineSeconds: new(int64(3600))}, Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: s.Now.Add(-20 * time.Minute)}}}}
	until := s.Now.Add(40 * time.Minute).UTC().Format(time.RFC3339)
	require.Contains(t, explain.Machine(s, "drover").Verdict, "If the driver hangs, it is waited for until "+until+" (in 40m): then the Job is ended.")
}
