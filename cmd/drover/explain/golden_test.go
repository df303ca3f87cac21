package explain_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMachineGolden(t *testing.T) {
	for name, snapshot := range machineSnapshots() {
		t.Run(name, func(t *testing.T) {
			golden(t, name, explained(snapshot, "drover"))
		})
	}
}

func TestDriverGolden(t *testing.T) {
	for name, snapshot := range driverSnapshots() {
		t.Run(name, func(t *testing.T) {
			golden(t, "driver-"+name, explainedDriver(snapshot, "kubectl drover"))
		})
	}
}

func golden(t *testing.T, name string, report *explain.Report) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, explain.Render(&out, report))
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), out.String())
}

func machineSnapshots() map[string]*facts.Snapshot {
	all := map[string]*facts.Snapshot{
		"unseen":         machine(),
		"image-pull":     withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, ""), waitingPod("ImagePullBackOff", `Back-off pulling image "registry.example/drover:1"`)),
		"pulling-normal": withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, "Job web-1-create-2 was made"), waitingPod("ContainerCreating", "")),
		"job-missing":    atJob(metav1.ConditionUnknown, rkev1.JobRunningReason, ""),
		"quota":          failed(rkev1.WaitingForRetryReason, rkev1.ClassQuota, "POST https://api.digitalocean.com/v2/droplets: 422 creating this/these droplet(s) will exceed your droplet limit"),
		"unauthorized":   failed(rkev1.AttemptsExhaustedReason, rkev1.ClassUnauthorized, "401 Unable to authenticate you"),
		"host-in-use": changed(failed(rkev1.AttemptsExhaustedReason, rkev1.ClassInvalid, "the host 198.18.0.9 already has a Kubernetes that this machine did not install"),
			func(s *facts.Snapshot) { s.State.Result.Reason = rkev1.HostInUseReason }),
		"hostile-message": failed(rkev1.WaitingForRetryReason, "", "red \x1b[31mtext\x1b[0m and {name}\nand more"),
		"running": changed(running(), func(s *facts.Snapshot) {
			s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, condition(rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason, "asked at 2026-11-28T09:00:00Z; the cloud did not list the server", 2))
		}),
		"server-may-exist": deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionFalse, rkev1.ServerMayExistReason,
			"no record of a server, and this cloud cannot be searched", 3)),
		"deleting":   deleting(condition(rkev1.DeleteJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason, "", 1)),
		"finalizers": deleting(done(rkev1.DeleteJobCondition, rkev1.ServerGoneReason, 1)),
		"nothing-known-of": {Now: now, Namespace: "shop", Name: "web-9", State: &facts.State{}, Events: []corev1.Event{
			event("uid-m", "web-9", "ServerGone", "the server is gone", 20)}},
		"state-left": {Now: now, Namespace: "shop", Name: "web-9", State: &facts.State{
			Name: "web-9-machine-state", ServerMayExist: true, Journal: &state.Journal{Operation: state.Create, Attempt: 1, Phase: state.PhaseIntent, InstanceName: "web-9"}}},
		"machinedeployment": {Now: now, Namespace: "shop", Name: "web", Owners: []facts.Object{{
			Kind: "MachineDeployment", Namespace: "shop", Name: "web", Phase: "ScalingUp", Replicas: 3, ReadyReplicas: 0,
			Conditions: []metav1.Condition{
				condition("Available", metav1.ConditionFalse, "NotAvailable", "0 available replicas, at least 3 required", 9),
				condition("ScalingUp", metav1.ConditionTrue, "ScalingUp", "Scaling up from 0 to 3 replicas is blocked because DigitaloceanMachineTemplate web does not exist", 9),
				condition("ScalingDown", metav1.ConditionFalse, "NotScalingDown", "", 9)}}}},
	}
	addWaiting(all)
	addAbsent(all)
	return all
}

// addWaiting adds machines that wait for others.
func addWaiting(all map[string]*facts.Snapshot) {
	s := machine(done(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, 14), done(rkev1.DriverReadyCondition, rkev1.DriverReadyReason, 14),
		condition(rkev1.BootstrapReadyCondition, metav1.ConditionFalse, rkev1.BootstrapSecretMissingReason, "Secret shop/web-1-bootstrap not found", 14),
		condition(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.BootstrapSecretMissingReason, "Secret shop/web-1-bootstrap not found", 14))
	s.Bootstrap.Found, s.Bootstrap.Keys = false, nil
	all["bootstrap-missing"] = s

	s = machine(done(rkev1.ClusterReadyCondition, rkev1.ClusterReadyReason, 14), done(rkev1.DriverReadyCondition, rkev1.DriverReadyReason, 14),
		done(rkev1.BootstrapReadyCondition, rkev1.BootstrapReadyReason, 14),
		condition(rkev1.CredentialReadyCondition, metav1.ConditionFalse, rkev1.CredentialNotSharedReason,
			"there is no Secret cattle-global-data:cc-1 that may be used here: create it, and name this namespace, shop, in its annotation "+rkev1.AllowedNamespacesAnnotation, 14))
	s.Machine.Spec.Common.CloudCredentialSecretName = "cattle-global-data:cc-1"
	s.Credential = nil
	s.Problems = []string{`getting Secret cattle-global-data/cc-1: secrets "cc-1" is forbidden: User "alice" cannot get it`}
	all["credential-not-shared"] = s

	s = machine(condition(rkev1.ClusterReadyCondition, metav1.ConditionFalse, rkev1.WaitingForInfrastructureReason,
		"the infrastructure of Cluster store is not provisioned yet (see the object that its spec.infrastructureRef names)", 14))
	s.Cluster.Status.Initialization.InfrastructureProvisioned = nil
	all["infrastructure"] = s

	s = running()
	s.State.Deleting = true
	all["state-going"] = s

	s = machine()
	s.Cluster.Spec.Paused = new(true)
	all["unseen-paused"] = s

	s = running()
	s.Machine.Status.Conditions = append(s.Machine.Status.Conditions, done(rkev1.PausedCondition, "Paused", 2))
	all["paused"] = s

	s = running()
	s.CAPIMachine.Status.NodeRef.Name = "web-1"
	all["node-joined"] = s

	s = running()
	since := ago(2 * 60 * 1e9)
	s.CAPIMachine.DeletionTimestamp = &since
	s.CAPIMachine.Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "DrainingNode", "Drain not completed yet: Pod shop/cart: cannot evict pod as it would violate its disruption budget", 2)}
	all["draining"] = s

	next := ago(-7 * 60 * 1e9)
	all["quota"].Machine.Status.NextAttemptTime = &next
	s = atJob(metav1.ConditionFalse, rkev1.WaitingForQuotaReason, "the cloud rejected another machine that retries for the same with the same credential (Quota)")
	s.Ahead = all["quota"].Machine
	all["held-quota"] = s
	s = withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, ""), nil)
	s.Events = []corev1.Event{event("uid-j", "web-1-create-2", "FailedCreate", `pods "web-1-create-2-x" is forbidden: exceeded quota: pods`, 1)}
	all["pod-forbidden"] = s
	s = withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, ""), nil)
	s.Events = []corev1.Event{event("uid-j", "web-1-create-2", "FailedCreate", `Error creating: pods "web-1-create-2-x" is forbidden: error looking up service account shop/web-1-machine: serviceaccount "web-1-machine" not found`, 1)}
	all["no-account"] = s

	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient memory."}}}}
	all["unschedulable"] = withJob(atJob(metav1.ConditionUnknown, rkev1.JobPendingReason, ""), pod)
}

// addAbsent adds CAPI Machines without a machine.
func addAbsent(all map[string]*facts.Snapshot) {
	absent := func() *facts.Snapshot {
		s := machine()
		s.Machine, s.MissingKind, s.Credential = nil, "DigitaloceanMachine", nil
		s.CAPIMachine.Status.Conditions = []metav1.Condition{
			condition("InfrastructureReady", metav1.ConditionFalse, "ObjectDoesNotExist", "DigitaloceanMachine does not exist", 8),
			condition("Deleting", metav1.ConditionFalse, "NotDeleting", "", 8)}
		return s
	}
	all["infrastructure-missing"] = absent()

	s := absent()
	s.Driver = nil
	all["kind-not-served"] = s

	s = absent()
	s.CAPIMachine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "DockerMachine", Name: "web-1"}
	s.MissingKind, s.Driver = "DockerMachine", nil
	all["other-provider"] = s
}

func driverSnapshots() map[string]*facts.DriverSnapshot {
	valid := done(v3.ValidCondition, v3.ValidReason, 8)
	mismatch := condition(v3.DownloadedCondition, metav1.ConditionFalse, v3.ChecksumMismatchReason, "sha256 is 11..., not 22...", 8)
	probing := condition(v3.InstalledCondition, metav1.ConditionUnknown, v3.ProbingReason, "Job drover-drivers/probe-mycloud-1 reads the driver", 1)
	pulling := external(valid, probing)
	reading := external(valid, probing, condition(v3.ReadyCondition, metav1.ConditionFalse, v3.ProbingReason, probing.Message, 1))
	pull := withJob(machine(), waitingPod("ErrImagePull", "manifest unknown"))
	pulling.Jobs, pulling.Pods = pull.Jobs, pull.Pods
	weak := external(condition(v3.ValidCondition, metav1.ConditionTrue, v3.WeakChecksumReason, "spec.checksum is md5, which can be forged: give a sha256", 8), done(v3.DownloadedCondition, v3.DownloadedReason, 7),
		done(v3.InstalledCondition, v3.InstalledReason, 7), done(v3.SchemaCompatibleCondition, v3.CompatibleReason, 7),
		done(v3.ActiveCondition, v3.EstablishedReason, 7), done(v3.ReadyCondition, v3.ReadyReason, 7))
	weak.Machines = 4
	inactive := &facts.DriverSnapshot{Now: now, Machines: -1, Driver: driver(false,
		condition(v3.ReadyCondition, metav1.ConditionFalse, v3.InactiveReason, "spec.active is false", 8))}
	failed := external(valid, mismatch, condition(v3.ReadyCondition, metav1.ConditionFalse, v3.ChecksumMismatchReason, "", 8))
	failed.Log = "GET https://drivers.example/docker-machine-driver-mycloud\n200 OK\n"
	return map[string]*facts.DriverSnapshot{
		"unseen": external(), "checksum": failed, "probing": reading, "image-pull": pulling, "weak": weak, "inactive": inactive,
	}
}
