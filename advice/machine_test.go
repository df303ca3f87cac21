package advice

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// constants are the string constants of a file whose name ends, or begins, with a word.
func constants(t *testing.T, file, word string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	values := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok || !strings.HasSuffix(name.Name, word) && !strings.HasPrefix(name.Name, word) {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			values[name.Name] = value
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}

// TestAdviceIsComplete reads the reasons and classes from the source, so that a new one without advice is found.
func TestAdviceIsComplete(t *testing.T) {
	// What is good, what says all that can be said, and what only drover why can tell.
	without := sets.New(rkev1.ReadyReason, rkev1.ServerListedReason, rkev1.ServerNotSeenReason, rkev1.WaitingForOwnerReason, rkev1.ClusterReadyReason, rkev1.DriverReadyReason,
		rkev1.DriverFromStatusReason, rkev1.BootstrapFormatUnknownReason, rkev1.DeliveredReason, rkev1.NotVerifiedReason, rkev1.BootstrapReadyReason,
		rkev1.CredentialNotNeededReason, rkev1.CredentialRecalledReason, rkev1.CredentialReadyReason, rkev1.JobSucceededReason, rkev1.JobCancelledReason,
		rkev1.CreateErrorReason, rkev1.DeleteErrorReason, rkev1.StateStoredReason, rkev1.ProviderIDSetReason, rkev1.AbandonedReason,
		rkev1.NothingMadeReason, rkev1.NodeSilentReason, rkev1.CancelledReason, rkev1.ServerIncompleteReason, rkev1.CreateFailedReason)
	for _, file := range []string{"../api/rke/v1/conditions.go", "../api/rke/v1/attempt_reasons.go"} {
		for name, reason := range constants(t, file, "Reason") {
			require.NotEqual(t, without.Has(reason), len(machine[reason])+len(results[reason].next) > 0, name)
		}
	}
	for name, class := range constants(t, "../api/rke/v1/conditions.go", "Class") {
		require.NotEmpty(t, classes[class].meaning, name)
		require.NotEmpty(t, classes[class].next, name)
	}
	for name, reason := range constants(t, "../api/management/v3/conditions.go", "Reason") {
		require.Contains(t, drivers, reason, name)
	}
	// What is good, and what goes away by itself and needs no more than its words.
	quiet := sets.New(rkev1.ReconciledReason, rkev1.UpToDateReason, rkev1.PlanDeliveredReason, rkev1.ApplyingPlanReason, rkev1.MachineDeletingReason,
		rkev1.WaitingForTokensReason, rkev1.WaitingForAuthoritiesReason, rkev1.WaitingForPlanSecretReason, rkev1.WaitingForMachinesReason,
		rkev1.WaitingForControlPlaneReason, rkev1.WaitingForTurnReason, rkev1.DataSecretAvailableReason, rkev1.AgentSecretsMissingReason,
		rkev1.APIAnswersReason, rkev1.PlanAppliedReason)
	for name, reason := range constants(t, "../api/rke/v1/controlplane_reasons.go", "Reason") {
		require.NotEqual(t, quiet.Has(reason), len(controlPlane[reason]) > 0, name)
	}
}

// TestReasonsHaveNames: outside of api/ a reason is a constant, so that who changes it finds who reads it. Two are Kubernetes' own words, too.
func TestReasonsHaveNames(t *testing.T) {
	reasons := sets.New[string]()
	for _, file := range []string{"../api/rke/v1/conditions.go", "../api/rke/v1/attempt_reasons.go", "../api/rke/v1/controlplane_reasons.go",
		"../api/management/v3/conditions.go"} {
		for _, reason := range constants(t, file, "Reason") {
			if strings.ToLower(reason[1:]) != reason[1:] { // one word alone, such as Ready, is said of much
				reasons.Insert(strconv.Quote(reason))
			}
		}
	}
	reasons.Delete(`"NodeLost"`, `"DeadlineExceeded"`)
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if hidden := entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".."; hidden || path == filepath.Join("..", "api") { // .drover has servers' file systems
			return fs.SkipDir
		}
		require.NoError(t, err)
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			require.False(t, ok && reasons.Has(literal.Value), "%s has a reason's word", path)
			return true
		})
		return nil
	}))
	require.Greater(t, files, 300)
}

// web is a machine of which all is known.
var web = Machine{Namespace: "shop", Name: "web-1", UID: "uid", Kind: "DigitaloceanMachine", Driver: "digitalocean", CAPIMachine: "web-1", Cluster: "store",
	CredentialNamespace: "shop", CredentialName: "do-token", Credential: "do-token", Bootstrap: "web-1-bootstrap", State: "web-1-machine-state", Instance: "pool-web-1",
	Job: "web-1-create-2", Cloned: true}

func TestMachine_On(t *testing.T) {
	const (
		logs  = "Read the whole log: drover logs web-1 -n shop"
		retry = "When the cause is fixed, start the next attempt immediately: drover retry web-1 -n shop"
		cloud = "Look in the cloud for a server named pool-web-1. If it belongs to this machine, remove it there by hand"
		drop  = "Only if no server is left, or you accept that one remains: drover abandon web-1 -n shop"
	)
	with := func(change func(*Machine)) Machine {
		m := web
		change(&m)
		return m
	}
	deleting := with(func(m *Machine) { m.Deleting = true })
	unnamed := with(func(m *Machine) { m.Bootstrap = "" })
	bare := with(func(m *Machine) { m.CredentialNamespace, m.CredentialName, m.Credential, m.Cloned = "", "", "", false })
	foreign := with(func(m *Machine) { m.CredentialNamespace, m.CredentialName, m.Credential = "clouds", "do", "clouds/do" })
	lend := []string{"Namespace shop is being deleted, so no Secret can be created in it. Share a valid credential from another namespace: kubectl -n NAMESPACE annotate secret NAME drover.cattle.io/allowed-namespaces=shop",
		"Then name that credential in the machine: kubectl -n shop patch digitaloceanmachines.rke-machine.cattle.io web-1 --type merge -p '{\"spec\":{\"common\":{\"cloudCredentialSecretName\":\"NAMESPACE:NAME\"}}}'"}
	going := with(func(m *Machine) { m.Deleting, m.NamespaceGoing = true, true })
	goingBare, goingForeign := bare, foreign
	goingBare.Cloned, goingBare.Deleting, goingBare.NamespaceGoing = true, true, true
	goingForeign.Deleting, goingForeign.NamespaceGoing = true, true
	generic := with(func(m *Machine) { m.Driver = "generic" })
	failed := func(class, reason string) *Attempt { return &Attempt{Class: class, Reason: reason} }
	notCleaned := func(message string) *Attempt {
		return &Attempt{Class: rkev1.ClassTransient, Reason: rkev1.HostNotCleanedReason, Message: message, Removes: true}
	}
	const byHand = "If the host is gone or was reinstalled, or after you cleaned it by hand as docs/drivers.md describes: drover abandon web-1 -n shop"
	later := []string{"To keep the server, restore only the Secret web-1-machine-state from a later backup, without metadata.ownerReferences, uid and resourceVersion: " +
		"kubectl -n shop replace -f web-1-machine-state.yaml", "If the Secret does not exist now: kubectl -n shop create -f web-1-machine-state.yaml"}
	inDoubt := func(message string, removes bool) *Attempt {
		return &Attempt{Class: rkev1.ClassInvalid, Reason: rkev1.ServerMayExistReason, Message: message, Removes: removes}
	}
	removing := &Attempt{Class: rkev1.ClassTransient, Removes: true}
	for name, c := range map[string]struct {
		machine   Machine
		condition string
		status    metav1.ConditionStatus
		reason    string
		last      *Attempt
		want      []string
	}{
		"deleted alone": {deleting, rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.WaitingForMachineDeletionReason, nil, []string{
			"See what Cluster API waits for: kubectl -n shop describe machine.cluster.x-k8s.io web-1",
			"A hook is an annotation that its owner removes. If its owner no longer exists, remove it yourself: kubectl -n shop annotate machine.cluster.x-k8s.io web-1 HOOK-"}},
		"good":               {web, rkev1.CreateJobCondition, metav1.ConditionTrue, rkev1.JobRunningReason, nil, nil},
		"of a newer manager": {web, rkev1.CreateJobCondition, "False", "FromTheFuture", nil, nil},
		"names no credential": {bare, rkev1.CredentialReadyCondition, "False", rkev1.CredentialMissingReason, nil, []string{
			"Create a Secret with the keys that the message above names, from files that contain only the value: kubectl -n shop create secret generic NAME --from-file=FIELD=FILE",
			"Name it in spec.common.cloudCredentialSecretName of the machine itself",
			"Correct the machine itself; it can be edited until it has a server: kubectl -n shop edit digitaloceanmachines.rke-machine.cattle.io web-1"}},
		"credential of another namespace": {foreign, rkev1.CredentialReadyCondition, "False", rkev1.CredentialNotSharedReason, nil, []string{
			"The owner of the credential can share it: kubectl -n clouds annotate secret do drover.cattle.io/allowed-namespaces=shop", "Or create your own credential in namespace shop"}},
		"removal without credential": {deleting, rkev1.DeleteJobCondition, "False", rkev1.CredentialMissingReason, removing, []string{
			"Create the Secret do-token with one key per credential field, from files that contain only the value: kubectl -n shop create secret generic do-token --from-file=FIELD=FILE",
			drop}},
		"removal without credential, the namespace goes": {going, rkev1.DeleteJobCondition, "False", rkev1.CredentialMissingReason, nil, append(slices.Clone(lend), drop)},
		"removal that names none, the namespace goes":    {goingBare, rkev1.DeleteJobCondition, "False", rkev1.CredentialMissingReason, nil, append(slices.Clone(lend), drop)},
		"removal of a known server refused": {deleting, rkev1.DeleteJobCondition, "False", rkev1.ClassUnauthorized,
			&Attempt{Class: rkev1.ClassUnauthorized, Reason: rkev1.RemoveFailedReason, Removes: true}, []string{
				"Put a valid credential into Secret do-token (values are base64). The next attempt uses it: kubectl -n shop edit secret do-token", retry, logs}},
		"removal of a known server refused, the namespace goes": {going, rkev1.DeleteJobCondition, "False", rkev1.ClassUnauthorized,
			&Attempt{Class: rkev1.ClassUnauthorized, Reason: rkev1.RemoveFailedReason, Removes: true}, append(slices.Clone(lend), retry, logs)},
		"removal refused, the namespace goes": {going, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason, &Attempt{Class: rkev1.ClassUnauthorized, Removes: true},
			append(slices.Clone(lend), retry, cloud, drop)},
		"removal refused, the credential is of another namespace": {goingForeign, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason, &Attempt{Class: rkev1.ClassUnauthorized, Removes: true}, []string{
			"Put a valid credential into Secret clouds/do (values are base64). The next attempt uses it: kubectl -n clouds edit secret do", retry, cloud, drop}},
		"removal waits": {deleting, rkev1.DeleteJobCondition, "False", rkev1.DriverNotReadyReason, nil, []string{"See why the driver is not ready: drover why driver/digitalocean"}},
		"removal failed": {deleting, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason, removing, []string{
			"Wait: the manager retries with increasing delays", logs, retry, cloud, drop}},
		"removal in doubt":                      {deleting, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason, nil, []string{cloud, drop}},
		"creating failed, and removal in doubt": {deleting, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason, failed(rkev1.ClassQuota, ""), []string{cloud, drop}},
		"bootstrap data from no name": {unnamed, rkev1.BootstrapReadyCondition, "False", rkev1.BootstrapSecretInvalidReason, nil, []string{
			"Correct spec.bootstrap.dataSecretName of the CAPI Machine (or of the MachineDeployment's template): kubectl -n shop edit machine.cluster.x-k8s.io web-1"}},
		"cancelling": {deleting, rkev1.DeleteJobCondition, "Unknown", rkev1.JobCancelledReason, nil, []string{
			"See its pod, which may take a minute to stop: kubectl -n shop get pods -l drover.cattle.io/machine-uid=uid -o wide"}},
		"creating in doubt": {web, rkev1.CreateJobCondition, "False", rkev1.ServerMayExistReason, failed(rkev1.ClassInvalid, rkev1.ServerMayExistReason), []string{
			cloud, "When no server is left, retry: drover retry web-1 -n shop", logs}},
		"creating in doubt, from a backup": {web, rkev1.CreateJobCondition, "False", rkev1.ServerMayExistReason,
			inDoubt("server 1 exists, and the state Secret, which was restored from a backup, records that it was never completed", false),
			append(slices.Clone(later), cloud, "When no server is left, retry: drover retry web-1 -n shop", logs)},
		"creating in doubt, without its state": {web, rkev1.CreateJobCondition, "False", rkev1.ServerMayExistReason,
			inDoubt("the cloud has server 1: it may be this machine's server from before a restore, and its state is lost", false),
			append(slices.Clone(later), cloud, "When no server is left, retry: drover retry web-1 -n shop", logs)},
		"creating in doubt, and nothing is known of the attempt": {web, rkev1.CreateJobCondition, "False", rkev1.ServerMayExistReason,
			inDoubt("an earlier attempt requested server web-1 from the cloud, and the result is unknown", false),
			append(slices.Clone(later), cloud, "When no server is left, retry: drover retry web-1 -n shop", logs)},
		"removal in doubt, without its state": {deleting, rkev1.DeleteJobCondition, "False", rkev1.ServerMayExistReason,
			inDoubt("the machine's state is lost, and the cloud has server 1: it may be this machine's server from before a restore", true),
			append(slices.Clone(later), retry, cloud, drop)},
		"the cloud's answer comes before the reason": {web, rkev1.CreateJobCondition, "False", rkev1.WaitingForRetryReason, failed(rkev1.ClassUnauthorized, rkev1.PreCreateCheckFailedReason), []string{
			"Put a valid credential into Secret do-token (values are base64). The next attempt uses it: kubectl -n shop edit secret do-token", retry, logs}},
		"the proxy rejects the Job": {web, rkev1.CreateJobCondition, "False", rkev1.WaitingForRetryReason,
			&Attempt{Class: rkev1.ClassTransient, Reason: rkev1.PreCreateCheckFailedReason, Message: `the checks: Get "https://api.hetzner.cloud/v1/servers": Forbidden`}, []string{
				"Allow the address that the message names in the proxy of the Jobs, or correct the manager's flags --job-https-proxy and --job-no-proxy (docs/install.md). The manager retries automatically", logs, retry}},
		"the reason comes before another class": {web, rkev1.CreateJobCondition, "False", rkev1.WaitingForRetryReason, failed(rkev1.ClassTransient, rkev1.HostTakenReason), []string{
			"Delete the machine that the message names, or set another host for this machine in a new machine template. The manager then retries automatically",
			"If the host's earlier machine was deleted or abandoned, clean the host by hand as docs/drivers.md describes", logs, retry}},
		"a credential in the spec": {bare, rkev1.CreateJobCondition, "False", rkev1.WaitingForRetryReason, failed(rkev1.ClassUnauthorized, ""), []string{
			"The credential is in the machine's own spec. Set a valid one in the machine itself, preferably as a Secret named in spec.common.cloudCredentialSecretName", retry, logs}},
		"a host": {generic, rkev1.CreateJobCondition, "False", rkev1.AttemptsExhaustedReason, failed(rkev1.ClassInvalid, rkev1.CreateFailedReason), []string{
			"Correct the value that the driver's message names (address, port, user or SSH key of the host). A retry without a change fails again",
			"Machine templates are immutable. Create a corrected copy under a new name, and name it in the MachineDeployment, which then replaces its machines. Get the current template: kubectl -n shop get digitaloceanmachinetemplates.rke-machine.cattle.io -o yaml",
			logs, retry, "Delete the machine. A MachineSet replaces it; without a MachineSet, create another one yourself: kubectl -n shop delete machine.cluster.x-k8s.io web-1"}},
		"a host that is in use": {generic, rkev1.CreateJobCondition, "False", rkev1.AttemptsExhaustedReason, failed(rkev1.ClassInvalid, rkev1.HostInUseReason), []string{
			"Set another host for this machine in a new machine template",
			"Or, if you do not need that Kubernetes and its data any more, remove it from the host with its own script (k3s-uninstall.sh, k3s-agent-uninstall.sh, rke2-uninstall.sh, kubeadm reset) and remove the remains of the paths that the message names. Then: drover retry web-1 -n shop",
			"If the host's earlier machine was deleted or abandoned, clean the host by hand as docs/drivers.md describes", logs,
			"Delete the machine. A MachineSet replaces it; without a MachineSet, create another one yourself: kubectl -n shop delete machine.cluster.x-k8s.io web-1"}},
		"a host that is not reached": {with(func(m *Machine) { m.HasPlan = true }), rkev1.DeleteJobCondition, "False", rkev1.WaitingForRetryReason, notCleaned("it was not cleaned: logging in: refused"), []string{
			"Allow SSH from the management cluster to the host, and authorize one of the machine's keys on the host (docs/drivers.md, Another key for a host). Then: drover retry web-1 -n shop",
			"Or allow the host's agent to reach the manager, and read the agent's report: drover logs web-1 -n shop --agent", logs, byHand}},
		"a host that cannot be cleaned, without a plan": {deleting, rkev1.DeleteJobCondition, "False", rkev1.WaitingForRetryReason, notCleaned("it was not cleaned: the uninstaller ended with exit code 1"), []string{
			"Fix the problem that the message names on the host, then: drover retry web-1 -n shop", logs, byHand}},
		"a name that is taken": {web, rkev1.CreateJobCondition, "False", rkev1.NameTakenReason, nil, []string{
			"The message above names the object. Check whether it belongs to another machine: drover get -A",
			"Delete or rename one of the two machines. Never delete a Secret web-1-machine-state, which is the only record of a server. A MachineSet chooses another name when its machine is deleted: kubectl -n shop delete machine.cluster.x-k8s.io web-1"}},
		"two servers, and no command twice": {web, rkev1.CreateJobCondition, "False", rkev1.AttemptsExhaustedReason, failed(rkev1.ClassInvalid, rkev1.DuplicateServersReason), []string{
			"If you know which server has joined the cluster, remove the others at the cloud, then: drover retry web-1 -n shop",
			"Or delete the machine, which removes all its servers: kubectl -n shop delete machine.cluster.x-k8s.io web-1", logs}},
		"not of the attempt": {web, rkev1.CreateJobCondition, "False", rkev1.JobRefusedReason, failed(rkev1.ClassTransient, ""), []string{
			"The message above names the policy or quota: correct it for namespace shop", "Drover's pods comply with the restricted Pod Security Standard"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.machine.On(metav1.Condition{Type: c.condition, Status: c.status, Reason: c.reason}, c.last))
		})
	}
}

func TestMachine_Says(t *testing.T) {
	require.Equal(t, "The cloud account's quota is used up", web.Explain(Attempt{Class: rkev1.ClassQuota, Reason: rkev1.CreateFailedReason}))
	require.Equal(t, "The bootstrap script failed on the server", web.Explain(Attempt{Class: rkev1.ClassUnknown, Reason: rkev1.BootstrapFailedReason}))
	require.Equal(t, "The driver's own checks before creation failed. No server was requested. The cloud rejects the credential, or the credential lacks a permission",
		web.Explain(Attempt{Class: rkev1.ClassUnauthorized, Reason: rkev1.PreCreateCheckFailedReason}))
	require.Equal(t, "The driver's own checks before creation failed. No server was requested. "+
		"The proxy that the manager gives its Jobs (--job-https-proxy) does not connect them to the cloud. The cloud has not seen the request or its credential",
		web.Explain(Attempt{Class: rkev1.ClassTransient, Reason: rkev1.PreCreateCheckFailedReason, Message: `Get "https://api.vultr.com/v2/account": Proxy Authentication Required`}))
	require.Equal(t, "The host rejects the login of the machine's SSH user", web.Explain(Attempt{Class: rkev1.ClassUnauthorized, Reason: rkev1.SSHUnauthorizedReason}), "no cloud was asked")
	unresponsive := Attempt{Class: rkev1.ClassUnknown, Reason: rkev1.DriverUnresponsiveReason, Message: "asking the driver: timeout"}
	require.Equal(t, "The driver did not answer in time. The driver's message is not recognized", web.Explain(unresponsive))
	unresponsive.Message = "the driver does not respond: its process ended during Create"
	require.Equal(t, "The driver's process ended during Create. The driver's message is not recognized", web.Explain(unresponsive))
	unresponsive.Message = "the driver does not respond: its process ended immediately"
	require.Equal(t, "The driver's process ended immediately. The driver's message is not recognized", web.Explain(unresponsive))
	require.Empty(t, web.Explain(Attempt{Class: rkev1.ClassInvalid, Reason: rkev1.ServerMayExistReason}), "no class has anything to add")
}

func TestDriver_On(t *testing.T) {
	d := Driver{Name: "mycloud", URL: "https://user:xxxxx@drivers.example/d?a=1&b=$(x)", Job: "probe-mycloud-2"}
	require.Equal(t, []string{"Verify that the file is the intended one before you change the checksum: curl -fsSL 'https://user:xxxxx@drivers.example/d?a=1&b=$(x)' | sha256sum",
		"Correct it. Drover reads the driver again when spec.url, spec.checksum or spec.version changes: kubectl edit nodedriver mycloud"}, d.On(v3.ChecksumMismatchReason))
	require.Equal(t, []string{"Read the probe's log: kubectl -n drover-drivers logs job/probe-mycloud-2 --all-containers",
		"Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name=probe-mycloud-2"}, d.On(rkev1.DeadlineReason), "a reason of its Job")
	require.Empty(t, Driver{Name: "mycloud"}.On(rkev1.DeadlineReason), "without a Job")
	require.Empty(t, d.On(v3.ReadyReason))
}
