package explain

import (
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Steps that come up again and again.
const (
	nextLogs     = "Read the whole log: {cmd} logs {name} -n {ns}"
	nextRetry    = "When the cause is removed, start the next attempt at once: {cmd} retry {name} -n {ns}"
	nextQuota    = "Raise the quota at the cloud or remove servers you do not need; no new server is tried in a loop meanwhile"
	nextPlace    = "Wait, or choose another size, zone or region in {where}"
	nextLimit    = "If it lasts, other users of the same credential may use the limit up"
	nextManager  = "See whether Drover's manager runs and what it logs: kubectl -n drover-system get pods; kubectl -n drover-system logs deploy/drover-manager"
	nextReplace  = "Let Cluster API replace the machine: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"
	nextTemplate = "Machine templates cannot be edited: put a copy with the right values beside the present one and name it in the MachineDeployment, which then replaces its machines. Get the present one: kubectl -n {ns} get {template} -o yaml"
	nextItself   = "Correct the machine itself, which can be edited until it has a server: kubectl -n {ns} edit {itself} {name}"
	nextKeys     = "Look at the credential: kubectl -n {credentialns} describe secret {credentialname}"
	nextDescribe = "See all the manager says of it: kubectl -n {ns} describe {resource} {name}"
	// A file, for what is written on a command line can be read by others and is kept in the shell's history.
	nextMakeCredential  = "Make the Secret {credential}, with one key per credential field, from files that hold nothing but the value: kubectl -n {credentialns} create secret generic {credentialname} --from-file=FIELD=FILE"
	nextEditCredential  = "Put a valid credential into Secret {credential}, which is used from the next attempt on (values are base64): kubectl -n {credentialns} edit secret {credentialname}"
	nextOtherCredential = "Or name an existing one in {where}"
	nextOwnCredential   = "The credential is in the machine's own spec: give one that is valid, best as a Secret named in spec.common.cloudCredentialSecretName, in {where}"
	nextCloud           = "Look in the cloud for a server called {instance}, and remove it there by hand if it is this machine's"
	nextAbandon         = "Only if no server is left, or you accept that one is: {cmd} abandon {name} -n {ns}"
	nextDriver          = "See what the driver is waiting for: {cmd} why driver/{driver}"
	nextNode            = "See what the server's bootstrap did: {cmd} ssh {name} -n {ns} -- 'cloud-init status --long || journalctl -b -n 50'"
)

// nextLendCredential is for a machine that only has to go: nothing can be made in a namespace that is being deleted.
var nextLendCredential = []string{
	"If namespace {ns} is being deleted, nothing can be made in it. Lend the machine a credential of another namespace: " +
		"kubectl -n NAMESPACE annotate secret NAME drover.cattle.io/allowed-namespaces={ns}",
	"And name that one: kubectl -n {ns} patch {resource} {name} --type merge -p '{\"spec\":{\"common\":{\"cloudCredentialSecretName\":\"NAMESPACE:NAME\"}}}'",
}

// Advice for what one reason does not tell apart.
var (
	noCredential = advice{says: "The driver needs a cloud credential, and the machine names none.",
		next: []string{"Make a Secret with the keys the message above names, from files that hold nothing but the value: kubectl -n {ns} create secret generic NAME --from-file=FIELD=FILE",
			"Name it in spec.common.cloudCredentialSecretName of {where}", nextTemplate, nextItself}}
	pausedCluster = advice{says: "Nothing happens: the Cluster {cluster} is paused.",
		next: []string{"Let the Cluster go on: kubectl -n {ns} patch cluster.cluster.x-k8s.io {cluster} --type merge -p '{\"spec\":{\"paused\":false}}'"}}
	pausedMachine = advice{says: "Nothing happens: the machine has the annotation cluster.x-k8s.io/paused.",
		next: []string{"Let the machine go on: kubectl -n {ns} annotate {resource} {name} cluster.x-k8s.io/paused-"}}
	// The CAPI Machine that names a machine makes itself its owner, if it is let.
	ownerPaused = advice{waits: true, says: "The CAPI Machine {capi} names it, but is paused and so does not own it yet."}
	ownerLetGo  = advice{next: []string{"Let the CAPI Machine go on: kubectl -n {ns} annotate machine.cluster.x-k8s.io {capi} cluster.x-k8s.io/paused-"}}
	ownerAsleep = advice{says: "Neither it nor its Cluster is paused any more.",
		next: []string{"Any change wakes it: kubectl -n {ns} annotate machine.cluster.x-k8s.io {capi} --overwrite woken=$(date +%s)",
			"If nothing changes then, see whether Cluster API's controllers run", nextManager}}
	ownerIdle = advice{waits: true, says: "The CAPI Machine {capi} names it, and does not own it yet: Cluster API sets the owner within seconds.",
		next: []string{"See what Cluster API waits for: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}", "If that tells nothing, see whether Cluster API's controllers run", nextManager}}
	// A remove that failed is tried again, unlike one that cannot tell whether there is a server.
	stillThere = advice{waits: true, says: "The server may still be there; removing it is tried again.",
		next: []string{nextRetry, nextCloud, nextAbandon}}
	// Nothing is tried again before somebody has looked.
	lookFirst = advice{says: "A server may be left, and neither the driver's record nor a search in the cloud can tell: no other is made before you have looked.",
		next: []string{nextCloud, "When none is left, go on: {cmd} retry {name} -n {ns}", nextLogs}}
	// generic has no cloud that could refuse a place or a size.
	hostInvalid = advice{says: "The host, or what the machine says of it, cannot be used.",
		next: []string{"Correct what the driver's message names (address, port, user or SSH key of the host); trying again without a change fails again", nextTemplate, nextItself}}
	stateGoing = advice{says: "Its state Secret {state} is being deleted, and is kept by its finalizer only: without it nobody can log in to the server.",
		next: []string{"Save it while it is there, in a file that only you can read: (umask 077; kubectl -n {ns} get secret {state} -o yaml > {state}.yaml)",
			"Then put a fresh one in its place: take its finalizer off and apply the file without metadata.deletionTimestamp, resourceVersion and uid"}}
	cancelling = advice{waits: true, says: "The machine is deleted while its server was being made: the create Job is ended first, so that what it knows is saved and no server is lost.",
		next: []string{"See its pod, which may take a minute to end: kubectl -n {podns} get pods -l drover.cattle.io/machine-uid={uid} -o wide"}}
)

// held is advice for a machine that waits because the cloud refused another one that asks for the same.
func held(cloud, next string) advice {
	return advice{waits: true, says: "The cloud " + cloud + ": one machine at a time asks again, and the others follow when it has got its server.",
		next: []string{next, "When the cause is removed, let this machine ask next, at once: {cmd} retry {name} -n {ns}"}}
}

// machineAdvice is by reason of a machine's condition.
var machineAdvice = map[string]advice{
	rkev1.ReadyReason: {says: "The server runs and its state is stored."},
	rkev1.WaitingForOwnerReason: {waits: true, says: "It waits for the CAPI Machine that owns it.",
		next: []string{"If you made this object by hand: make a CAPI Machine whose spec.infrastructureRef names it", "If a MachineSet made it, Cluster API sets the owner within seconds: see whether Cluster API's controllers run", nextManager}},
	rkev1.WaitingForClusterReason: {waits: true, says: "It waits for the CAPI Cluster {cluster}, which does not exist or is not named on the CAPI Machine.",
		next: []string{"See whether the Cluster exists: kubectl -n {ns} get cluster.cluster.x-k8s.io {cluster}", "The CAPI Machine must name it in spec.clusterName"}},
	rkev1.WaitingForInfrastructureReason: {waits: true, says: "It waits for the infrastructure of Cluster {cluster} to be provisioned.",
		next: []string{"Look at the Cluster's infrastructure: kubectl -n {ns} describe cluster.cluster.x-k8s.io {cluster}", "The Cluster's spec.infrastructureRef must name an existing infrastructure cluster, such as an RKECluster"}},
	rkev1.ClusterReadyReason: {says: "The Cluster and its infrastructure are there."},
	rkev1.DriverNotFoundReason: {says: "No NodeDriver makes machines of kind {kind}.",
		next: []string{"See which drivers there are: {cmd} get drivers", "Make a NodeDriver for {driver}, or activate the predefined one: kubectl patch nodedriver {driver} --type merge -p '{\"spec\":{\"active\":true}}'"}},
	rkev1.DriverNotReadyReason: {waits: true, says: "Its driver {driver} cannot be run yet.",
		next: []string{nextDriver}},
	rkev1.DriverReadyReason:      {says: "The driver can be run."},
	rkev1.DriverFromStatusReason: {says: "The NodeDriver is gone; the driver the machine was made with is used."},
	rkev1.WaitingForBootstrapReason: {waits: true, says: "It waits for the bootstrap data, which a bootstrap provider or you must supply.",
		next: []string{"See what the bootstrap provider does: kubectl -n {ns} describe machine.cluster.x-k8s.io {capi}", "With a Secret of your own: set spec.bootstrap.dataSecretName of the CAPI Machine (or of the MachineDeployment's template)"}},
	rkev1.BootstrapSecretMissingReason: {says: "The bootstrap Secret {bootstrap} does not exist.",
		next: []string{"Make it, with the script or cloud-config under key value: kubectl -n {ns} create secret generic {bootstrap} --from-file=value=FILE", "Or correct spec.bootstrap.dataSecretName of the CAPI Machine"}},
	rkev1.BootstrapSecretInvalidReason: {says: "The bootstrap Secret {bootstrap} cannot be used.",
		next: []string{"It needs the key value with a shell script, a cloud-config or MIME parts; key format may say cloud-config. Look at it: kubectl -n {ns} describe secret {bootstrap}", "Its content is read again as soon as it changes"}},
	rkev1.UserDataTooLargeReason: {says: "The user data is larger than this cloud takes.",
		next: []string{"Make the bootstrap data smaller: fetch large files from the server's script, leave out comments and unused files", "See the limit and the size in the message above"}},
	rkev1.BootstrapFormatUnknownReason: {says: "The bootstrap data is handed over, but nothing is known that reads data which begins like that.",
		next: []string{"See who wrote it: kubectl -n {ns} describe secret {bootstrap}", "A script begins with #!, cloud-init's configuration with #cloud-config"}},
	rkev1.ServerListedReason: {says: "The cloud lists the server."},
	rkev1.ServerNotSeenReason: {waits: true, says: "Nobody has seen the server in the cloud's list.",
		next: []string{"See when the account was looked at: kubectl -n {ns} get serverscans"}},
	rkev1.ServerNotListedReason: {says: "The cloud does not list the server any more.",
		next: []string{"Look for it at the cloud; if it lives, give it back the tags that docs/drivers.md names", nextReplace}},
	rkev1.DeliveredReason: {says: "The bootstrap data has reached the server."},
	rkev1.NotVerifiedReason: {waits: true, says: "Nobody has seen whether the bootstrap data reached the server.",
		next: []string{"Look yourself: {cmd} ssh -n {ns} {name} -- cloud-init status --long"}},
	rkev1.NotDeliveredReason: {says: "The server runs without its bootstrap data: the driver or the cloud did not hand it over.",
		next: []string{"Look at what it got: {cmd} ssh -n {ns} {name} -- cloud-init status --long", "See how the NodeDriver {driver} says that its driver takes user data (annotation drover.cattle.io/user-data), and correct that", nextReplace}},
	rkev1.UserDataHabitUnknownReason: {says: "It is not known how the driver takes user data, so the server would boot without its bootstrap data.",
		next: []string{"Say it on the NodeDriver: kubectl annotate nodedriver {driver} drover.cattle.io/user-data=flag=FLAG,habit=HABIT", "The message above names the flags; docs/kinds/nodedriver.md says how to find the habit out"}},
	rkev1.BootstrapReadyReason: {says: "The bootstrap data is there."},
	rkev1.CredentialMissingReason: {says: "The cloud credential Secret {credential} does not exist.",
		next: []string{nextMakeCredential, nextOtherCredential}},
	rkev1.CredentialInvalidReason: {says: "The cloud credential {credential} lacks a field the driver needs, or has one it does not know.",
		next: []string{nextKeys, "Add what the message above names; it is read again as soon as it changes"}},
	rkev1.CredentialNotSharedReason: {says: "The cloud credential {credential} is in another namespace and may not be used from {ns}.",
		next: []string{"Whoever owns it can share it: kubectl -n {credentialns} annotate secret {credentialname} drover.cattle.io/allowed-namespaces={ns}", "Or make a credential of your own in namespace {ns}"}},
	rkev1.CredentialNotNeededReason: {says: "The driver needs no credential."},
	rkev1.CredentialRecalledReason:  {says: "The credential's Secret is gone; the server is removed with the credential that was used last."},
	rkev1.CredentialReadyReason:     {says: "The credential is there."},
	rkev1.SpecInvalidReason: {says: "The machine's spec cannot be used.",
		next: []string{"The message above names the field. See what fields there are: kubectl explain {plural}.spec --api-version=rke-machine.cattle.io/v1", nextTemplate, nextItself}},
	rkev1.NameTooLongReason: {says: "The machine's name is too long for this cloud.",
		next: []string{"Let Drover shorten the server's name: put annotation rke.cattle.io/hostname-length-limit (10 to 63) on the machine or its template", "Or use shorter names of cluster and pool"}},
	rkev1.NameTakenReason: {says: "Another machine of this namespace, or somebody else, already uses a name that is made from {name}.",
		next: []string{"The message above names the object. See whether it is another machine's: {cmd} get {name} -n {ns}", "Delete one of the two machines, or give it another name; never a Secret {name}-machine-state, which is all that is known of a server. A MachineSet chooses another name when its machine is deleted: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"}},
	rkev1.JobRunningReason: {waits: true, says: "A Job is at work.",
		next: []string{"Watch what the driver says: {cmd} logs {name} -n {ns} -f"}},
	rkev1.JobPendingReason: {waits: true, says: "A Job was made, its pod has not started yet.",
		next: []string{"Look at the pod: kubectl -n {ns} describe pods -l batch.kubernetes.io/job-name={job}"}},
	rkev1.JobQueuedReason: {waits: true, says: "As many Jobs run as the manager may run at once.",
		next: []string{"Wait: it goes on as soon as the Jobs ahead of it have ended", "The manager's flag --max-concurrent-jobs says how many may run"}},
	rkev1.JobSucceededReason: {says: "The Job succeeded."},
	rkev1.JobCancelledReason: {says: "The Job was cancelled.",
		next: []string{nextLogs, nextRetry}},
	rkev1.WaitingForRetryReason: {waits: true, says: "The last attempt failed; it will be tried again.",
		next: []string{nextLogs, nextRetry}},
	rkev1.AttemptsExhaustedReason: {says: "Nothing more happens by itself. It is tried again when the machine, its credential, its bootstrap Secret, its NodeDriver or the manager's settings for Jobs change, or when you ask for it.",
		next: []string{nextLogs, nextRetry, nextReplace}},
	rkev1.WaitingForQuotaReason:     held("has no quota left for what this machine asks for", nextQuota),
	rkev1.WaitingForCapacityReason:  held("has no capacity for what this machine asks for", nextPlace),
	rkev1.WaitingForRateLimitReason: held("asks for fewer requests", nextLimit),
	rkev1.CreateErrorReason:         {says: "Creating the server failed.", next: []string{nextLogs, nextRetry, nextReplace}},
	rkev1.DeleteErrorReason:         {says: "Removing the server failed.", next: []string{nextLogs, nextRetry, nextCloud, nextAbandon}},
	rkev1.StateStoredReason:         {says: "The server's record, key and addresses are stored."},
	rkev1.StateMissingReason: {says: "The server's state is missing: its Secret is gone or has no record.",
		next: []string{"Restore the Secret {state} from a backup if there is one",
			"Or delete the machine: its server is looked for by its tags and provider ID and removed, or named where that cannot be told; a MachineSet or control plane then makes another: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"}},
	rkev1.ProviderIDSetReason: {says: "The providerID is set."},
	rkev1.WaitingForNodeReason: {waits: true, says: "The server runs. Its providerID is not known from the driver, so Drover waits for its node to join the cluster.",
		next: []string{nextNode, "The node is found by the server's addresses or name; where it has neither, label it rke.cattle.io/machine=UID-OF-THE-CAPI-MACHINE, or set spec.providerIDTemplate of the NodeDriver {driver}"}},
	rkev1.OwnerUnknownReason: {says: "The machine came from a backup with an owner that is not here, so that the garbage collector deletes it. Its server is left as it is.",
		next: []string{"To keep the server: kubectl -n {ns} patch {plural} {name} --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
			"Then apply it again from the backup, without metadata.ownerReferences",
			"To remove the server: kubectl -n {ns} annotate {plural} {name} drover.cattle.io/remove-restored={name}"}},
	rkev1.RemovalBegunReason: {says: "The removal of its server was begun, and a move or a restore forgot that the machine was being deleted. Nothing is made for it.",
		next: []string{"Delete it again: kubectl -n {ns} delete machine.cluster.x-k8s.io {capi}"}},
	rkev1.ServerMayExistReason: {says: "A server may be left, and neither the driver's record nor a search in the cloud can tell.",
		next: []string{nextCloud, nextAbandon}},
	rkev1.ServerGoneReason: {says: "The server is gone."},
	rkev1.AbandonedReason: {says: "The server was given up on request; what remains of it is yours to remove.",
		next: []string{nextCloud}},
	rkev1.NothingMadeReason: {says: "No server was ever made, so there is nothing to remove."},
	rkev1.DeletingReason: {waits: true, says: "The machine is being deleted.",
		next: []string{"Watch what the driver says: {cmd} logs {name} -n {ns} -f"}},
}

// classAdvice is by class of the last attempt's failure; it comes before the advice of the reason.
var classAdvice = map[string]advice{
	rkev1.ClassInvalid: {says: "The cloud or the driver does not accept what was asked for.",
		next: []string{"Correct what the driver's message names (region, size, image, a missing option); trying again without a change fails again", nextTemplate, nextItself}},
	rkev1.ClassUnauthorized: {says: "The cloud does not accept the credential, or it lacks a permission.",
		next: []string{nextEditCredential, nextRetry}},
	rkev1.ClassQuota: {says: "The cloud account's quota is used up.",
		next: []string{nextQuota, nextRetry}},
	rkev1.ClassCapacity: {says: "The cloud has no capacity for this kind of server in this place now.",
		next: []string{nextPlace, nextRetry}},
	rkev1.ClassThrottled: {waits: true, says: "The cloud asks for fewer requests.",
		next: []string{"Wait: attempts go on with growing delays", nextLimit}},
	rkev1.ClassTransient: {waits: true, says: "A failure that usually goes away: a timeout, a broken connection or an error inside the cloud.",
		next: []string{"Wait: attempts go on with growing delays", nextLogs}},
	rkev1.ClassUnknown: {says: "The driver's message is of no known kind.",
		next: []string{"Read the driver's own message above", nextLogs, nextRetry}},
}

// resultAdvice is by the reason a Job itself gave for its failure (jobrunner/operation, driver), and by the reasons for
// which the manager can make no Job (controllers/machine). The driver's own message stands before it on the screen.
var resultAdvice = map[string]advice{
	rkev1.CancelledReason:                  {waits: true, says: "The Job was told to stop, and saved what it knew: a server that it asked for is taken by the next attempt, or looked for."},
	rkev1.RequestInvalidReason:             {says: "The Job did not understand what it was asked for.", next: []string{"The manager and the image of its Jobs must be of the same version"}},
	rkev1.JobFailedReason:                  {says: "The Job failed inside itself.", next: []string{nextLogs, nextRetry}},
	rkev1.DiskFullReason:                   {waits: true, says: "The disk of the Job is full.", next: []string{"See the space of the node that ran it, and whether the driver writes much: {cmd} logs {name} -n {ns}"}},
	rkev1.OptionsInvalidReason:             {says: "The driver does not take an option of the machine.", next: []string{"See what fields there are: kubectl explain {plural}.spec --api-version=rke-machine.cattle.io/v1", nextTemplate, nextItself}},
	rkev1.StateUnreadableReason:            {says: "The machine's state cannot be read.", next: []string{"Restore the Secret {state} from a backup if there is one", nextCloud}},
	rkev1.StateTooLargeReason:              {says: "The driver's record is larger than a Secret can hold.", next: []string{"Ask the driver's author; a smaller file option may help", nextLogs}},
	rkev1.StateUnwritableReason:            {waits: true, says: "The Job could not write the machine's state.", next: []string{"See whether the management cluster's API can be reached from its pods, and whether a policy or quota forbids to write Secret {state}", nextLogs}},
	rkev1.DriverUnavailableReason:          {waits: true, says: "The driver's binary could not be had.", next: []string{nextDriver, nextLogs}},
	rkev1.DriverUnresponsiveReason:         {says: "The driver did not answer in time.", next: []string{nextLogs, nextRetry}},
	rkev1.FlagsInvalidReason:               {says: "The driver's flags cannot be read.", next: []string{nextDriver}},
	rkev1.PreCreateCheckFailedReason:       {says: "The driver's own checks before creating failed; no server was asked for.", next: []string{nextLogs}},
	rkev1.CreateFailedReason:               {says: "The driver could not make the server."},
	rkev1.RemoveFailedReason:               {says: "The driver could not remove the server.", next: []string{nextLogs, nextCloud}},
	rkev1.LookupFailedReason:               {waits: true, says: "It could not be found out whether a server exists, so none was made or given up.", next: []string{nextLogs}},
	rkev1.ServerGoneReason:                 {says: "The server went away while it was waited for.", next: []string{"See in the cloud who removed it", nextRetry}},
	rkev1.ServerNotRunningReason:           {says: "The server did not get to run in time.", next: []string{"Look at the server {instance} in the cloud: its console may tell", nextRetry}},
	rkev1.ServerIncompleteReason:           {waits: true, says: "An earlier attempt left an unfinished server, which was removed."},
	rkev1.UserDataInvalidReason:            {says: "The bootstrap data and the machine's own user data cannot be merged.", next: []string{"The message above tells which part and line: correct the user data in {where}, or the Secret {bootstrap}", "It is read again as soon as it changes"}},
	rkev1.BootstrapFormatUnsupportedReason: {says: "This driver takes no user data, so the bootstrap data must be a shell script.", next: []string{"Use a bootstrap provider that writes a script, or a Secret of your own that begins with #!"}},
	rkev1.BootstrapFailedReason:            {says: "The bootstrap script failed on the server.", next: []string{nextLogs, nextLook, nextReplace}},
	rkev1.BootstrapInterruptedReason:       {says: "The bootstrap script was interrupted on the server and is not run twice.", next: []string{nextLook, nextReplace}},
	rkev1.SSHUnreachableReason:             {says: "The server's SSH cannot be reached from the management cluster.", next: []string{"See whether the cloud's firewall or security group lets the management cluster's pods reach the server's SSH port, and whether its image runs sshd", nextLogs, nextRetry}},
	rkev1.SSHUnauthorizedReason:            {says: "The host does not let the machine's SSH user in.", next: []string{"Authorize the key on the host that the message names, or set the user and the key that the host knows", nextLogs, nextRetry}},
	rkev1.HostTakenReason:                  {waits: true, says: "The host belongs to another machine, so nothing was run on it.", next: []string{"Remove the machine that the message names, or give this one another host in {where}; then it is tried again by itself"}},
	rkev1.SSHKeyMissingReason:              {says: "There is no SSH key for the server, and this driver needs one.", next: []string{"Give the driver's option for the SSH key in {where}"}},
	rkev1.CacheIncompleteReason:            {says: "The cached driver binary is not whole.", next: []string{"Have the driver read again by changing spec.version of the NodeDriver {driver}", nextDriver}},
	rkev1.NamespaceTerminatingReason:       {says: "The namespace is being deleted, and no Job can be made in it any more.", next: []string{nextCloud, nextAbandon}},
	rkev1.JobRefusedReason:                 {says: "The management cluster refuses the Job or what it needs.", next: []string{"The message above names the policy or quota: correct it for namespace {ns}", "Pods of Drover meet the restricted Pod Security Standard"}},
	// Of Jobs that ended without a word from their pod, or do not start.
	rkev1.DeadlineReason: {says: "The Job took longer than it may and was ended.",
		next: []string{nextLogs, "A slow cloud may need a longer deadline in the manager's settings"}},
	rkev1.OutOfMemoryReason: {says: "The Job's pod used more memory than its limit.",
		next: []string{"Raise the memory limit that the manager gives Jobs"}},
	rkev1.EvictedReason: {waits: true, says: "The Job's pod was evicted from its node.",
		next: []string{"See whether the management cluster's nodes have room: kubectl describe nodes"}},
	rkev1.NodeLostReason: {waits: true, says: "The node of the Job's pod went away.",
		next: []string{"Wait: the next attempt starts from what the last one recorded"}},
	rkev1.NodeSilentReason: {says: "The node of the Job's pod is silent, and so the Job cannot end.",
		next: []string{"Look at the node: kubectl get node {node}", "If its computer is off for good: kubectl delete node {node}",
			"If it is off, and will come back: kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}},
	rkev1.KilledReason: {waits: true, says: "The Job's pod was killed.",
		next: []string{"Wait: the next attempt starts from what the last one recorded", "If it happens again, look at the management cluster's nodes: kubectl describe nodes"}},
	rkev1.ImageReason: {says: "The image of the Job's pod cannot be pulled.",
		next: []string{"Correct the image, registry or pull secret that the manager gives Jobs", "Look at the pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
	rkev1.ResultMissingReason: {says: "The Job ended without telling how.",
		next: []string{nextLogs, "Look at its pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
	rkev1.ResultInvalidReason: {says: "What the Job told about its end cannot be read.",
		next: []string{nextLogs, "The image of the Job and the manager may be of different versions"}},
	rkev1.JobGoneReason: {says: "The Job was deleted before it ended.",
		next: []string{"Wait: the next attempt starts from what the last one recorded", nextRetry}},
	rkev1.PodPendingReason: {waits: true, says: "The Job's pod cannot start.",
		next: []string{"Look at the pod: kubectl -n {podns} describe pods -l batch.kubernetes.io/job-name={job}"}},
}

const nextLook = "Look at the server: {cmd} ssh {name} -n {ns}"

// conditionAdvice finds the advice for a reason of a machine's condition, wherever the reason comes from.
func conditionAdvice(reason string) (advice, bool) {
	for _, table := range []map[string]advice{machineAdvice, resultAdvice} {
		if about, known := table[reason]; known {
			return about, true
		}
	}
	return advice{}, false
}

// failureAdvice finds the advice for the reason with which an attempt ended.
func failureAdvice(reason string) advice {
	for _, table := range []map[string]advice{resultAdvice, machineAdvice} {
		if about, known := table[reason]; known {
			return about
		}
	}
	return advice{}
}
