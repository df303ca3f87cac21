package advice

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// Machine holds the names for advice about a machine. Unknown names are empty.
type Machine struct {
	Namespace, Name, UID, Kind, Driver, CAPIMachine, Cluster string
	// NodeDriver is the name of the driver's NodeDriver object, which may differ from the driver's
	// name; if unknown, the driver's name is used.
	NodeDriver string
	// CredentialNamespace and CredentialName identify the Secret that the machine names; Credential
	// is the name in the machine's spec.
	CredentialNamespace, CredentialName, Credential string
	// Bootstrap and State are Secrets; Instance is the server.
	Bootstrap, State, Instance string
	// Job is the last one, in namespace JobNamespace.
	Job, JobNamespace string
	// Pool is the machine's pool of the provisioning Cluster with the name of Cluster; empty for a machine
	// of another Cluster. Its options come from a Config.
	Pool string
	// Cloned is true if the machine was made from a template, Deleting if it is being deleted.
	Cloned, Deleting bool
	// NamespaceGoing is true if its namespace is being deleted: no object can be created in it.
	NamespaceGoing bool
	// HasPlan is true if the machine's agent may clean its host by plan.
	HasPlan bool
}

// Words for advice about the machine.
func (m Machine) Words() Words {
	kind := strings.ToLower(m.Kind)
	w := Words{
		"ns": m.Namespace, "name": m.Name, "uid": m.UID, "driver": m.Driver, "nodedriver": cmp.Or(m.NodeDriver, m.Driver),
		"capi": m.CAPIMachine, "cluster": m.Cluster,
		"credentialns": cmp.Or(m.CredentialNamespace, m.Namespace), "credentialname": m.CredentialName, "credential": m.Credential,
		"bootstrap": m.Bootstrap, "state": m.State, "instance": cmp.Or(m.Instance, m.Name), "job": m.Job, "podns": cmp.Or(m.JobNamespace, m.Namespace),
		"plural": kind + "s", "resource": kind + "s." + rkev1.MachineGroupVersion.Group,
	}
	if m.Pool != "" {
		w["pool"], w["where"], w["configs"] = m.Pool, "the Config of its pool", strings.TrimSuffix(kind, "machine")+"configs."+rkev1.MachineConfigGroupVersion.Group
	} else if m.Cloned {
		w["template"], w["where"] = kind+"templates."+rkev1.MachineGroupVersion.Group, "a new machine template"
	} else {
		w["itself"], w["where"] = w["resource"], "the machine itself"
	}
	return w
}

// Attempt is the failure of the last attempt: its class, and the reason and message of its Job.
type Attempt struct {
	Class, Reason, Message string
	// Removes is true if the attempt was to remove the server.
	Removes bool
}

// IsAboutAttempt reports whether a condition with the reason describes the end of the last attempt.
func IsAboutAttempt(reason string) bool {
	return slices.Contains([]string{rkev1.WaitingForRetryReason, rkev1.AttemptsExhaustedReason, rkev1.ServerMayExistReason, rkev1.ClassUnauthorized}, reason)
}

// Waits reports whether a reason ends without an action of the user; other reasons are failures.
func Waits(reason string) bool { return waits.Has(reason) }

// On returns the advice for a condition of the machine; last is nil if its last attempt did not
// fail.
func (m Machine) On(c metav1.Condition, last *Attempt) []string {
	if c.Status == metav1.ConditionTrue {
		return nil
	}
	var filled []string
	texts := m.steps(c, last)
	if m.Pool != "" {
		texts = slices.Clone(texts)
		for i := range texts {
			texts[i] = cmp.Or(ofPool[texts[i]], texts[i])
		}
	}
	for _, text := range m.Words().Fill(texts...) {
		if !slices.Contains(filled, text) {
			filled = append(filled, text)
		}
	}
	return filled
}

// steps returns the texts of the advice for a condition that is not True.
func (m Machine) steps(c metav1.Condition, last *Attempt) []string {
	if last != nil && (!IsAboutAttempt(c.Reason) || last.Removes != (c.Type == rkev1.DeleteJobCondition)) {
		last = nil // the condition is not about the last attempt
	}
	next := m.onReason(c, last)
	if last != nil && last.Reason != rkev1.ServerMayExistReason {
		next = withoutRepeats(append(m.failure(*last).next, next...))
	}
	if c.Reason == rkev1.ClassUnauthorized {
		// The state records the server, and the Job can remove it.
		next = slices.DeleteFunc(next, func(text string) bool { return text == nextCloud })
	}
	if m.Deleting && c.Status == metav1.ConditionFalse && !Waits(c.Reason) && last == nil {
		next = m.forRemoval(next)
	}
	inNamespace := func(text string) bool { return slices.Contains(inOwnNamespace, text) }
	if at := slices.IndexFunc(next, inNamespace); at >= 0 && m.NamespaceGoing && cmp.Or(m.CredentialNamespace, m.Namespace) == m.Namespace {
		next = slices.Insert(slices.DeleteFunc(slices.Clone(next), inNamespace), at, lendCredential...)
	}
	return next
}

// withoutRepeats leaves out texts whose command an earlier text has.
func withoutRepeats(next []string) []string {
	var kept []string
	for _, text := range next {
		at := called.FindStringIndex(text)
		repeats := func(earlier string) bool { return at != nil && strings.HasSuffix(earlier, text[at[0]:]) }
		if !slices.ContainsFunc(kept, repeats) {
			kept = append(kept, text)
		}
	}
	return kept
}

// called matches the beginning of a command in advice.
var called = regexp.MustCompile(`[:;] (?:kubectl|drover) `)

// onReason returns the advice for the reason, with the cases that the reason alone does not
// distinguish.
func (m Machine) onReason(c metav1.Condition, last *Attempt) []string {
	switch {
	case c.Reason == rkev1.CredentialMissingReason && m.CredentialName == "":
		return noCredential
	case c.Reason == rkev1.BootstrapSecretInvalidReason && m.Bootstrap == "":
		return noBootstrap
	case c.Reason == rkev1.JobCancelledReason:
		return cancelling
	case c.Reason == rkev1.NameTakenReason && copied.MatchString(c.Message):
		return copyOfLive
	case last != nil && c.Reason == rkev1.ServerMayExistReason:
		next := stillThere
		if c.Type == rkev1.CreateJobCondition {
			next = lookFirst
		}
		if restored.MatchString(last.Message) {
			next = slices.Concat(laterState, next)
		}
		return next
	}
	if next, known := machine[c.Reason]; known {
		return next
	}
	return results[c.Reason].next
}

// forRemoval adapts the advice for a machine that is being deleted: templates do not help, and the
// user can give up the server.
func (m Machine) forRemoval(next []string) []string {
	next = slices.DeleteFunc(slices.Clone(next), func(text string) bool {
		return text == nextTemplate || text == nextOtherCredential || text == NextAbandon
	})
	return append(next, NextAbandon)
}

// Explain returns the meaning of the class and the reason of a failure.
func (m Machine) Explain(last Attempt) string { return m.failure(last).meaning }

// failure returns the advice for a failed attempt. The advice for the cloud's answer comes first;
// then the advice for the Job's reason, unless it is only to read the log or to retry.
func (m Machine) failure(last Attempt) failure {
	result, class := results[last.Reason], classes[cmp.Or(last.Class, rkev1.ClassUnknown)]
	if how := processEnded.FindString(last.Message); how != "" && last.Reason == rkev1.DriverUnresponsiveReason {
		result.meaning = "The driver's " + strings.TrimPrefix(how, "its ")
	}
	switch {
	case last.Reason == rkev1.HostNotCleanedReason:
		result.next = m.toClean(last, result.next)
	case last.Class == rkev1.ClassInvalid && m.Driver == "generic":
		class = hostInvalid
	case last.Reason == rkev1.SSHUnauthorizedReason:
		class = failure{} // no cloud was asked
	case last.Class == rkev1.ClassTransient && clouds.ProxyFailed(last.Message):
		class = proxyFailed
	case last.Class == rkev1.ClassUnauthorized && m.CredentialName == "":
		class.next = []string{nextOwnCredential, nextRetry}
	}
	cloud := sets.New(rkev1.ClassUnauthorized, rkev1.ClassQuota, rkev1.ClassCapacity, rkev1.ClassThrottled)
	further := sets.New(nextLogs, nextRetry, nextCloud)
	if !further.HasAll(result.next...) && !cloud.Has(last.Class) || last.Reason == rkev1.ServerMayExistReason {
		class = failure{}
	}
	meaning := strings.TrimPrefix(result.meaning+". "+class.meaning, ". ")
	return failure{meaning: strings.TrimSuffix(meaning, ". "), next: append(slices.Clone(class.next), result.next...)}
}

// toClean returns the advice about a host that was not cleaned. It depends on the error of the last
// attempt and on whether the agent can clean the host.
func (m Machine) toClean(last Attempt, next []string) []string {
	next = slices.Clone(next)
	if strings.Contains(last.Message, notLoggedIn) {
		next[0] = nextReachHost
	}
	if m.HasPlan {
		next = slices.Insert(next, 1, nextAgent)
	}
	return next
}

// notLoggedIn is the text in messages of jobrunner/operation for a host that rejected the Job's
// login.
const notLoggedIn = "not cleaned: logging in: "

// restored matches the messages of jobrunner/operation for a state that may be older than the
// server, or without a record of the request for the server.
var restored = regexp.MustCompile(`which was restored from a backup|from before a restore|an earlier attempt requested server`)

// copied matches the message of controllers/machine for a state whose servers have the tag of
// another machine.
var copied = regexp.MustCompile(`names the tag of machine UID`)

// processEnded matches the message of jobrunner/operation/plugin for a driver's process that ended.
var processEnded = regexp.MustCompile(`its process ended (immediately|during \w+)`)

// failure explains a class of failures, or the reason of a Job, and holds the advice. It does not
// repeat the words of the reason.
type failure struct {
	meaning string
	next    []string
}

// Advice for several reasons.
const (
	nextClean     = "If the host's earlier machine was deleted or abandoned, clean the host by hand as docs/drivers.md describes"
	nextLogs      = "Read the whole log: drover logs {name} -n {ns}"
	nextWatch     = "Follow the driver's log: drover logs {name} -n {ns} -f"
	nextRetry     = "When the cause is fixed, start the next attempt immediately: drover retry {name} -n {ns}"
	nextAsk       = "When the cause is fixed, let this machine retry first, immediately: drover retry {name} -n {ns}"
	nextWait      = "Wait: the manager retries with increasing delays"
	nextRecorded  = "Wait: the next attempt continues from the recorded state of the last attempt"
	nextQuota     = "Raise the quota at the cloud, or remove servers that are not needed. Until then, the manager does not keep requesting servers"
	nextPlace     = "Wait, or choose another size, zone or region in {where}"
	nextLimit     = "If it persists, other users of the same credential may use up the rate limit"
	nextReplace   = "Delete the machine. A MachineSet replaces it; without a MachineSet, create another one yourself: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"
	nextTemplate  = "Machine templates are immutable. Create a corrected copy under a new name, and name it in the MachineDeployment, which then replaces its machines. Get the current template: kubectl -n {ns} get {template} -o yaml"
	nextConfig    = "Correct the Config of pool {pool}. Drover then replaces the pool's machines. List the Configs: kubectl -n {ns} get {configs}"
	nextItself    = "Correct the machine itself; it can be edited until it has a server: kubectl -n {ns} edit {itself} {name}"
	nextFields    = "List the fields: kubectl explain {plural}.spec --api-version=rke-machine.cattle.io/v1"
	nextJobPods   = "Look at the pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"
	nextJobEvents = "See why in the events of the Job: kubectl -n {podns} describe job {job}"
	nextRestore   = "Restore the Secret {state} from a backup, if one exists"
	// From a file, because other users can read a command line, and the shell's history keeps it.
	nextMakeCredential  = "Create the Secret {credential} with one key per credential field, from files that contain only the value: kubectl -n {credentialns} create secret generic {credentialname} --from-file=FIELD=FILE"
	nextEditCredential  = "Put a valid credential into Secret {credential} (values are base64). The next attempt uses it: kubectl -n {credentialns} edit secret {credentialname}"
	nextOtherCredential = "Or name an existing one in {where}"
	nextOwnCredential   = "The credential is in the machine's own spec. Set a valid one in {where}, preferably as a Secret named in spec.common.cloudCredentialSecretName"
	nextCloud           = "Look in the cloud for a server named {instance}. If it belongs to this machine, remove it there by hand"
	// NextAbandon is for a server that cannot be removed.
	NextAbandon   = "Only if no server is left, or you accept that one remains: drover abandon {name} -n {ns}"
	nextDriver    = "See why the driver is not ready: drover why driver/{nodedriver}"
	nextLook      = "Log in to the server: drover ssh {name} -n {ns}"
	nextMendHost  = "Fix the problem that the message names on the host, then: drover retry {name} -n {ns}"
	nextFreeHost  = "Or, if you do not need that Kubernetes and its data any more, remove it from the host with its own script (k3s-uninstall.sh, k3s-agent-uninstall.sh, rke2-uninstall.sh, kubeadm reset) and remove the remains of the paths that the message names. Then: drover retry {name} -n {ns}"
	nextReachHost = "Allow SSH from the management cluster to the host, and authorize one of the machine's keys on the host (docs/drivers.md, Another key for a host). Then: drover retry {name} -n {ns}"
	nextAgent     = "Or allow the host's agent to reach the manager, and read the agent's report: drover logs {name} -n {ns} --agent"
	// A reinstalled host has another host key.
	nextAbandonHost = "If the host is gone or was reinstalled, or after you cleaned it by hand as docs/drivers.md describes: drover abandon {name} -n {ns}"
	restartKubelet  = ` -n {ns} -- "sudo systemctl try-restart 'k3s*' 'rke2*' 'kubelet*'"`
	// NextRegister is for a server whose Node was deleted.
	NextRegister = "If its Node was deleted, restart the kubelet, which registers its Node only when it starts: drover ssh {name}" + restartKubelet
	// NextNode is for a server whose node has not joined its cluster.
	NextNode = "Read the log of the server's bootstrap: drover ssh {name} -n {ns} -- 'cloud-init status --long || journalctl -b -n 50'"
)

// Advice for cases that a reason alone does not distinguish.
var (
	noCredential = []string{"Create a Secret with the keys that the message above names, from files that contain only the value: kubectl -n {ns} create secret generic NAME --from-file=FIELD=FILE",
		"Name it in spec.common.cloudCredentialSecretName of {where}", nextTemplate, nextItself}
	lendCredential = []string{
		"Namespace {ns} is being deleted, so no Secret can be created in it. Share a valid credential from another namespace: " +
			"kubectl -n NAMESPACE annotate secret NAME drover.cattle.io/allowed-namespaces={ns}",
		"Then name that credential in the machine: kubectl -n {ns} patch {resource} {name} --type merge -p '{\"spec\":{\"common\":{\"cloudCredentialSecretName\":\"NAMESPACE:NAME\"}}}'"}
	// inOwnNamespace is the advice that a user cannot follow in a namespace that is being deleted.
	inOwnNamespace = append([]string{nextMakeCredential, nextEditCredential, nextOwnCredential}, noCredential[:2]...)
	// The manager retries a failed remove, but not an attempt that cannot find out whether a server
	// exists.
	stillThere = []string{nextRetry, nextCloud, NextAbandon}
	// No retry starts before a user has checked the cloud.
	lookFirst = []string{nextCloud, "When no server is left, retry: drover retry {name} -n {ns}", nextLogs}
	// A state that records the server keeps the server, which matters for the only server with the
	// cluster's data.
	laterState = []string{
		"To keep the server, restore only the Secret {state} from a later backup, without metadata.ownerReferences, uid and resourceVersion: " +
			"kubectl -n {ns} replace -f {state}.yaml",
		"If the Secret does not exist now: kubectl -n {ns} create -f {state}.yaml",
	}
	// The kubeconfig of a copy leads to the running cluster.
	copyOfLive = []string{
		"If namespace {ns} is a copy of a namespace whose clusters run, do not delete Machines in it: Cluster API would cordon, drain and delete the Nodes of the running cluster. " +
			"Pause the copy: kubectl -n {ns} annotate clusters.cluster.x-k8s.io {cluster} --overwrite cluster.x-k8s.io/paused=true",
		"Then remove the copy without touching servers and Nodes, as docs/dataflow.md#a-copy-of-a-live-namespace describes",
	}
	// generic has no cloud that could reject a place or a size.
	hostInvalid = failure{"The host, or the machine's settings for it, cannot be used", []string{
		"Correct the value that the driver's message names (address, port, user or SSH key of the host). A retry without a change fails again", nextTemplate, nextItself}}
	proxyFailed = failure{"The proxy that the manager gives its Jobs (--job-https-proxy) does not connect them to the cloud. The cloud has not seen the request or its credential", []string{
		"Allow the address that the message names in the proxy of the Jobs, or correct the manager's flags --job-https-proxy and --job-no-proxy (docs/install.md). The manager retries automatically", nextLogs}}
	noBootstrap = []string{"Correct spec.bootstrap.dataSecretName of the CAPI Machine (or of the MachineDeployment's template): kubectl -n {ns} edit machine.cluster.x-k8s.io {capi}"}
	cancelling  = []string{"See its pod, which may take a minute to stop: kubectl -n {podns} get pods -l drover.cattle.io/machine-uid={uid} -o wide"}
)

var waits = sets.New(rkev1.WaitingForOwnerReason, rkev1.WaitingForClusterReason, rkev1.WaitingForInfrastructureReason, rkev1.DriverNotReadyReason,
	rkev1.WaitingForBootstrapReason, rkev1.ServerNotSeenReason, rkev1.NotVerifiedReason, rkev1.JobRunningReason, rkev1.ThrottledReason, rkev1.JobPendingReason, rkev1.JobQueuedReason,
	rkev1.WaitingForRetryReason, rkev1.WaitingForQuotaReason, rkev1.WaitingForCapacityReason, rkev1.WaitingForRateLimitReason, rkev1.WaitingForNodeReason,
	rkev1.DeletingReason, rkev1.WaitingForMachineDeletionReason,
	rkev1.CancelledReason, rkev1.DiskFullReason, rkev1.StateUnwritableReason, rkev1.DriverUnavailableReason, rkev1.LookupFailedReason,
	rkev1.ServerIncompleteReason, rkev1.HostTakenReason, rkev1.EvictedReason, rkev1.NodeLostReason, rkev1.KilledReason, rkev1.PodPendingReason,
	v3.InactiveReason, v3.DeletionBlockedReason, v3.RemovingKindsReason,
	rkev1.WaitingForMachinesReason, rkev1.WaitingForTokensReason, rkev1.WaitingForAuthoritiesReason, rkev1.WaitingForPlanSecretReason, rkev1.WaitingForServerReason,
	rkev1.WaitingForControlPlaneReason, rkev1.WaitingForTurnReason, rkev1.PlanDeliveredReason, rkev1.WaitingForAgentReason, rkev1.ApplyingPlanReason,
	rkev1.WaitingForProbesReason, rkev1.MachineDeletingReason, provv1.ReplacingMachinesReason)

// ofPool replaces advice for the machines of a provisioning Cluster.
var ofPool = map[string]string{
	nextTemplate:        nextConfig,
	nextOtherCredential: "Or name an existing one in cloudCredentialSecretName of the Cluster: kubectl edit clusters.provisioning.cattle.io {cluster} -n {ns}",
}

// machine holds the advice by reason of a condition. For NodeSilent, and for the owner that a
// machine waits for, the messages and drover why suffice.
var machine = map[string][]string{
	rkev1.WaitingForClusterReason: {"Check whether the Cluster exists: kubectl -n {ns} get cluster.cluster.x-k8s.io {cluster}", "The CAPI Machine must name it in spec.clusterName"},
	rkev1.WaitingForInfrastructureReason: {"See the state of the Cluster's infrastructure: kubectl -n {ns} describe cluster.cluster.x-k8s.io {cluster}",
		"The Cluster's spec.infrastructureRef must name an existing infrastructure cluster, such as an RKECluster"},
	rkev1.DriverNotFoundReason: {"List the drivers: drover get drivers",
		"Create a NodeDriver for {driver}, or activate the predefined one: kubectl patch nodedriver {driver} --type merge -p '{\"spec\":{\"active\":true}}'"},
	rkev1.DriverNotReadyReason: {nextDriver},
	rkev1.WaitingForBootstrapReason: {"See the state of the bootstrap data: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}",
		"If you use your own Secret, set spec.bootstrap.dataSecretName of the CAPI Machine (or of the MachineDeployment's template)"},
	rkev1.BootstrapSecretMissingReason: {"Create it, with the script or cloud-config under the key value: kubectl -n {ns} create secret generic {bootstrap} --from-file=value=FILE",
		"Or correct spec.bootstrap.dataSecretName of the CAPI Machine"},
	rkev1.BootstrapSecretInvalidReason: {"The key value must hold a shell script, a cloud-config or MIME parts. The key format may be cloud-config. See the Secret: kubectl -n {ns} describe secret {bootstrap}",
		"Drover reads the Secret again when it changes"},
	rkev1.UserDataTooLargeReason: {"Make the bootstrap data smaller: let the server's script download large files, and remove comments and unused files"},
	rkev1.ServerNotListedReason:  {"Look for the server in the cloud. If it still runs, restore the tags that docs/drivers.md names", nextReplace},
	rkev1.NotDeliveredReason: {"See which user data the server received: drover ssh -n {ns} {name} -- cloud-init status --long",
		"If the message names runcmd, correct the user data in {where}",
		"Otherwise correct the annotation drover.cattle.io/user-data of the NodeDriver of driver {driver}, which states how the driver takes user data", nextReplace},
	rkev1.UserDataHabitUnknownReason: {"Set it on the NodeDriver: kubectl annotate nodedriver {nodedriver} drover.cattle.io/user-data=flag=FLAG,habit=HABIT",
		"The message above names the flags. docs/kinds/nodedriver.md explains how to find the habit"},
	rkev1.CredentialMissingReason: {nextMakeCredential, nextOtherCredential},
	rkev1.CredentialInvalidReason: {"See the credential's keys: kubectl -n {credentialns} describe secret {credentialname}", "Add the keys that the message above names. Drover reads the Secret again when it changes"},
	rkev1.CredentialNotSharedReason: {"The owner of the credential can share it: kubectl -n {credentialns} annotate secret {credentialname} drover.cattle.io/allowed-namespaces={ns}",
		"Or create your own credential in namespace {ns}"},
	rkev1.SpecInvalidReason: {"The message above names the field. " + nextFields, nextTemplate, nextItself},
	rkev1.NameTooLongReason: {"Let Drover shorten the server's name: put annotation rke.cattle.io/hostname-length-limit (10 to 63) on the machine or its template",
		"Or use shorter names for the cluster and the pool"},
	rkev1.NameTakenReason: {"The message above names the object. Check whether it belongs to another machine: drover get -A",
		"Delete or rename one of the two machines. Never delete a Secret {name}-machine-state, which is the only record of a server. A MachineSet chooses another name when its machine is deleted: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"},
	rkev1.JobRunningReason:          {nextWatch},
	rkev1.ThrottledReason:           {nextWatch, nextLimit},
	rkev1.JobPendingReason:          {nextJobPods},
	rkev1.JobQueuedReason:           {"Wait: it starts when the Jobs ahead of it have ended", "The manager's flag --max-concurrent-jobs limits how many Jobs run"},
	rkev1.WaitingForRetryReason:     {nextLogs, nextRetry},
	rkev1.AttemptsExhaustedReason:   {nextLogs, nextRetry, nextReplace},
	rkev1.WaitingForQuotaReason:     {nextQuota, nextAsk},
	rkev1.WaitingForCapacityReason:  {nextPlace, nextAsk},
	rkev1.WaitingForRateLimitReason: {nextLimit, nextAsk},
	rkev1.StateMissingReason: {nextRestore,
		"Or delete the machine. Drover looks for its server by tags and provider ID and removes it, or names it if its identity is not certain. A MachineSet or control plane then creates another machine: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"},
	rkev1.WaitingForNodeReason: {NextNode,
		"Drover finds the Node by the server's addresses or name. If neither matches, label the Node rke.cattle.io/machine=UID-OF-THE-CAPI-MACHINE, or set spec.providerIDTemplate of the NodeDriver {nodedriver}"},
	rkev1.ProviderIDMissingReason: {"Set spec.providerID to the ID that the cloud's own controller gives the Node, or to drover://{ns}/{name}: kubectl -n {ns} edit {plural} {name}"},
	rkev1.OwnerUnknownReason: {
		"To keep the server, restore again as docs/dataflow.md describes: empty the namespace without touching its servers, and apply the backup without metadata.ownerReferences",
		"Or, if its CAPI Machine exists and stays, remove the finalizers and then apply only this machine again, without metadata.ownerReferences: kubectl -n {ns} patch {plural} {name} --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
		"To remove the server: kubectl -n {ns} annotate {plural} {name} drover.cattle.io/remove-restored={name}"},
	rkev1.WaitingForMachineDeletionReason: {"See what Cluster API waits for: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}",
		"A hook is an annotation that its owner removes. If its owner no longer exists, remove it yourself: kubectl -n {ns} annotate machine.cluster.x-k8s.io {capi} HOOK-"},
	rkev1.RemovalBegunReason:   {"Delete it again: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"},
	rkev1.ServerMayExistReason: {nextCloud, NextAbandon},
	rkev1.DeletingReason:       {nextWatch},
}

// classes holds the advice by class of the last attempt's failure.
var classes = map[string]failure{
	rkev1.ClassInvalid: {"The cloud or the driver rejects the request", []string{
		"Correct the option that the driver's message names (region, size, image, a missing option). A retry without a change fails again", nextTemplate, nextItself}},
	rkev1.ClassUnauthorized: {"The cloud rejects the credential, or the credential lacks a permission", []string{nextEditCredential, nextRetry}},
	rkev1.ClassQuota:        {"The cloud account's quota is used up", []string{nextQuota, nextRetry}},
	rkev1.ClassCapacity:     {"The cloud currently has no capacity for this server type in this location", []string{nextPlace, nextRetry}},
	rkev1.ClassThrottled:    {"The cloud limits the request rate", []string{nextWait, nextLimit}},
	rkev1.ClassTransient:    {"A failure that is usually temporary: a timeout, a broken connection or an internal error of the cloud", []string{nextWait, nextLogs}},
	rkev1.ClassUnknown:      {"The driver's message is not recognized", []string{"Read the driver's own message above", nextLogs, nextRetry}},
}

// results holds the advice by the reason of a Job's failure, and by the reasons for which the
// manager cannot create a Job or a Job does not start.
var results = map[string]failure{
	rkev1.CancelledReason:            {"The Job was stopped, and it saved its state. The next attempt takes over a server that this Job requested, or looks for it", nil},
	rkev1.RequestInvalidReason:       {"The Job could not read its request", []string{"The manager and the image of its Jobs must have the same version"}},
	rkev1.JobFailedReason:            {"The Job failed with an internal error", []string{nextLogs, nextRetry}},
	rkev1.DiskFullReason:             {"The disk of the Job is full", []string{"Check the free disk space of the node that ran it, and whether the driver writes much data: drover logs {name} -n {ns}"}},
	rkev1.OptionsInvalidReason:       {"The driver rejects an option of the machine", []string{nextFields, nextTemplate, nextItself}},
	rkev1.StateUnreadableReason:      {"The machine's state cannot be read", []string{nextRestore, nextCloud}},
	rkev1.StateTooLargeReason:        {"The driver's record is larger than a Secret can hold", []string{"Ask the driver's author. A smaller file in an option may help", nextLogs}},
	rkev1.StateUnwritableReason:      {"The Job could not write the machine's state", []string{"Check whether the management cluster's pods can reach its API, and whether a policy or quota rejects writes to Secret {state}", nextLogs}},
	rkev1.DriverUnavailableReason:    {"The driver's binary is not available", []string{nextDriver, nextLogs}},
	rkev1.DriverUnresponsiveReason:   {"The driver did not answer in time", []string{nextLogs, nextRetry}},
	rkev1.FlagsInvalidReason:         {"The driver's flags cannot be read", []string{nextDriver}},
	rkev1.PreCreateCheckFailedReason: {"The driver's own checks before creation failed. No server was requested", []string{nextLogs}},
	rkev1.CreateFailedReason:         {},
	rkev1.RemoveFailedReason:         {"", []string{nextLogs, nextCloud}},
	rkev1.LookupFailedReason:         {"The Job could not find out whether a server exists, so it neither created nor gave up one", []string{nextLogs}},
	rkev1.ServerGoneReason:           {"The server disappeared while the Job waited for it", []string{"Check in the cloud's audit log who removed it", nextRetry}},
	rkev1.ServerNotRunningReason:     {"The server did not start in time", []string{"Look at the server {instance} in the cloud; its console may show the cause", nextRetry}},
	rkev1.ServerIncompleteReason:     {"An earlier attempt left an unfinished server, which was removed", nil},
	rkev1.DuplicateServersReason: {"The cloud has more than one server for this machine, and each has its bootstrap data", []string{
		"If you know which server has joined the cluster, remove the others at the cloud, then: drover retry {name} -n {ns}",
		"Or delete the machine, which removes all its servers: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"}},
	rkev1.UserDataInvalidReason: {"The bootstrap data and the machine's own user data cannot be merged", []string{
		"The message above names the part and the line. Correct the user data in {where}, or the Secret {bootstrap}", "Drover reads it again when it changes"}},
	rkev1.BootstrapFormatUnsupportedReason: {"This driver takes no user data, so the bootstrap data must be a shell script", []string{
		"Use a bootstrap provider that writes a script, or your own Secret with a script that begins with #!", "Drover reads it again when it changes"}},
	rkev1.BootstrapFailedReason:      {"The bootstrap script failed on the server", []string{nextLogs, nextLook, nextReplace}},
	rkev1.BootstrapInterruptedReason: {"The bootstrap script was interrupted on the server, and Drover does not run it twice", []string{nextLook, nextReplace}},
	rkev1.SSHUnreachableReason: {"The management cluster cannot reach the server's SSH port", []string{
		"Check whether the cloud's firewall or security group allows the management cluster's pods to reach the server's SSH port, and whether the server's image runs sshd", nextLogs, nextRetry}},
	rkev1.SSHUnauthorizedReason: {"The host rejects the login of the machine's SSH user", []string{
		"Authorize the key that the message names on the host. Or set a user and a key that the host accepts, in the machine's credential or spec", nextLogs, nextRetry}},
	rkev1.HostTakenReason: {"The host belongs to another machine, so the Job ran no command on it", []string{
		"Delete the machine that the message names, or set another host for this machine in {where}. The manager then retries automatically", nextClean}},
	rkev1.HostInUseReason: {"The host has a Kubernetes that Drover did not install for this machine, so the Job changed nothing there", []string{
		"Set another host for this machine in {where}", nextFreeHost, nextClean}},
	rkev1.HostNotCleanedReason:       {"The host was not cleaned, so the machine object is kept", []string{nextMendHost, nextLogs, nextAbandonHost}},
	rkev1.SSHKeyMissingReason:        {"There is no SSH key for the server, and this driver needs one", []string{"Set the driver's option for the SSH key in {where}"}},
	rkev1.CacheIncompleteReason:      {"The cached driver binary is incomplete", []string{"Change spec.version of the NodeDriver {nodedriver}, which makes Drover read the driver again", nextDriver}},
	rkev1.NamespaceTerminatingReason: {"", []string{nextCloud, NextAbandon}},
	rkev1.JobRefusedReason:           {"", []string{"The message above names the policy or quota: correct it for namespace {ns}", "Drover's pods comply with the restricted Pod Security Standard"}},
	rkev1.DeadlineReason:             {"The Job exceeded its deadline and was stopped", []string{nextLogs, "A slow cloud may need a longer deadline in the manager's settings"}},
	rkev1.OutOfMemoryReason:          {"The Job's pod used more memory than its limit", []string{"Raise the memory limit that the manager gives Jobs"}},
	rkev1.EvictedReason:              {"The Job's pod was evicted from its node", []string{"Check whether the management cluster's nodes have free resources: kubectl describe nodes"}},
	rkev1.NodeLostReason:             {"The node of the Job's pod was lost", []string{nextRecorded}},
	rkev1.KilledReason:               {"The Job's pod was killed", []string{nextRecorded, "If it happens again, check the management cluster's nodes: kubectl describe nodes"}},
	rkev1.ImageReason:                {"The image of the Job's pod cannot be pulled", []string{"Correct the image, registry or pull secret that the manager gives Jobs", nextJobPods}},
	rkev1.ResultMissingReason:        {"The Job ended without a result", []string{nextLogs, nextJobPods}},
	rkev1.ResultInvalidReason:        {"The Job's result cannot be read", []string{nextLogs, "The image of the Job and the manager may be of different versions"}},
	rkev1.JobGoneReason:              {"The Job was deleted before it ended", []string{nextRecorded, nextRetry}},
	rkev1.PodPendingReason:           {"The Job's pod cannot start", []string{nextJobPods}},
	rkev1.PodNotCreatedReason:        {"", []string{nextJobEvents, "Correct the ResourceQuota, LimitRange or policy that the event names. Drover's pods comply with the restricted Pod Security Standard"}},
}
