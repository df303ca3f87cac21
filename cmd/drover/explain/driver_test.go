package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// driverDecision is a snapshot of a driver and what is told of it.
type driverDecision struct {
	snapshot *facts.DriverSnapshot
	want     string
}

func TestDriverDecisions(t *testing.T) {
	for name, cases := range map[string]map[string]driverDecision{"read": readDrivers(), "probe": probedDrivers(), "use": usedDrivers()} {
		for of, c := range cases {
			t.Run(name+"/"+of, func(t *testing.T) {
				require.Equal(t, strings.TrimPrefix(c.want, "\n"), told(explainedDriver(c.snapshot, "drover")))
			})
		}
	}
}

// probed is an external driver whose probe's Job is still there.
func probed(conditions ...metav1.Condition) *facts.DriverSnapshot {
	s := external(conditions...)
	s.Jobs = []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "probe-mycloud-2", UID: "uid-j"}}}
	return s
}

func valid() metav1.Condition { return done(v3.ValidCondition, v3.ValidReason, 8) }

func failedAt(name, reason, message string) metav1.Condition {
	return condition(name, metav1.ConditionFalse, reason, message, 8)
}

func readDrivers() map[string]driverDecision {
	return map[string]driverDecision{
		"download failed": {probed(valid(), failedAt(v3.DownloadedCondition, v3.DownloadFailedReason, "Get \"https://drivers.example\": dial tcp: no such host")), `
! Downloaded|DownloadFailed||Get "https://drivers.example": dial tcp: no such host
. Get "https://drivers.example": dial tcp: no such host
. Attempts to read the driver so far: 2.
> Check whether a pod of this cluster can reach spec.url. It may need the manager's proxy or CA settings
> Correct it. Drover reads the driver again when spec.url, spec.checksum or spec.version changes: kubectl edit nodedriver mycloud
> Read the probe's log: kubectl -n drover-drivers logs job/probe-mycloud-2 --all-containers
`},
		"a reason of a newer manager": {probed(valid(), failedAt(v3.DownloadedCondition, "FromTheFuture", "something new")), `
! Downloaded|FromTheFuture||something new
. something new
. Attempts to read the driver so far: 2.
> Read the probe's log: kubectl -n drover-drivers logs job/probe-mycloud-2 --all-containers
> Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name=probe-mycloud-2
`},
		"a password in its URL": {func() *facts.DriverSnapshot {
			s := external(valid(), failedAt(v3.DownloadedCondition, v3.ChecksumMismatchReason, ""))
			s.Driver.Spec.URL = "https://user:MARKER@drivers.example/d?a=1&b=$(x)"
			return s
		}(), `
! Downloaded|ChecksumMismatch||
. The step Downloaded is not done: ChecksumMismatch.
. Attempts to read the driver so far: 2.
> Verify that the file is the intended one before you change the checksum: curl -fsSL 'https://user:xxxxx@drivers.example/d?a=1&b=$(x)' | sha256sum
> Correct it. Drover reads the driver again when spec.url, spec.checksum or spec.version changes: kubectl edit nodedriver mycloud
`},
	}
}

func probedDrivers() map[string]driverDecision {
	probing := condition(v3.InstalledCondition, metav1.ConditionUnknown, v3.ProbingReason, "Job probe-mycloud-2 is under way", 1)
	withPod := func(pod *corev1.Pod, events ...corev1.Event) *facts.DriverSnapshot {
		s := probed(valid(), probing)
		s.Events = events
		if pod != nil {
			pod.Name, pod.UID, pod.Spec.NodeName = "probe-mycloud-2-x", "uid-p", "n1"
			s.Pods = []corev1.Pod{*pod}
		}
		return s
	}
	return map[string]driverDecision{
		"at work": {withPod(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}), `
! Installed|Probing||Job probe-mycloud-2 is under way
. Job probe-mycloud-2 is under way
. Attempts to read the driver so far: 2.
> Look at the probe's pod: kubectl -n drover-drivers describe pods -l batch.kubernetes.io/job-name=probe-mycloud-2
`},
		"no pod": {withPod(nil, event("uid-j", "probe-mycloud-2", "FailedCreate", "exceeded quota", 1)), `
! Installed|FailedCreate||exceeded quota
. The management cluster rejects the Job's pod.
. exceeded quota
> The message above names the policy or quota: correct it for namespace drover-drivers
> Drover's pods comply with the restricted Pod Security Standard
`},
		"no network": {withPod(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, event("uid-p", "probe-mycloud-2-x", "FailedCreatePodSandBox", "no CNI", 1)), `
! Installed|FailedCreatePodSandBox||no CNI
. The node cannot set up the Job's pod because of its network or container runtime.
. no CNI
> Look at the pod: kubectl -n drover-drivers describe pod probe-mycloud-2-x
> See the node's conditions and events: kubectl describe node n1
`},
		"too much memory": {withPod(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "machine", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}}}}), `
! Installed|OOMKilled||container machine was killed
. The Job's container exceeded its memory limit.
. container machine was killed
> Raise the memory limit that the manager gives Jobs
> Read its log: kubectl -n drover-drivers logs probe-mycloud-2-x --all-containers
`},
	}
}

func usedDrivers() map[string]driverDecision {
	ready := func(conditions ...metav1.Condition) *facts.DriverSnapshot {
		return external(append([]metav1.Condition{valid(), done(v3.DownloadedCondition, v3.DownloadedReason, 7), done(v3.InstalledCondition, v3.InstalledReason, 7)}, conditions...)...)
	}
	deleting := ready(failedAt(v3.ReadyCondition, v3.DeletionBlockedReason, "4 machines are left"))
	since := ago(time.Minute)
	deleting.Driver.DeletionTimestamp = &since
	kept := ready(failedAt(v3.ReadyCondition, v3.KeptForMachinesReason, "2 machines"))
	kept.Driver.Spec.Active = false
	return map[string]driverDecision{
		"ready": {ready(done(v3.SchemaCompatibleCondition, v3.CompatibleReason, 7), done(v3.ActiveCondition, v3.EstablishedReason, 7), done(v3.ReadyCondition, v3.ReadyReason, 7)), `
. The driver is ready, and its CRDs are served.
`},
		"ready, with warnings": {external(condition(v3.ValidCondition, metav1.ConditionTrue, v3.WeakChecksumReason, "spec.checksum is md5", 8),
			condition(v3.SchemaCompatibleCondition, metav1.ConditionTrue, v3.DoubtfulAnnotationsReason, `look at the annotations: private credential field "passwrd" matches no flag`, 7),
			done(v3.ActiveCondition, v3.EstablishedReason, 7), done(v3.ReadyCondition, v3.ReadyReason, 7)), `
! Valid|WeakChecksum||spec.checksum is md5
. spec.checksum is md5
. look at the annotations: private credential field "passwrd" matches no flag
> Set spec.checksum to the SHA-256 of the file at spec.url: curl -fsSL https://drivers.example/docker-machine-driver-mycloud | sha256sum
> Correct or add the annotation that the message above names: kubectl edit nodedriver mycloud
`},
		"being deleted": {deleting, `
! Ready|MachinesExist||4 machines are left
. 4 machines are left
> List the machines: drover get -A
> Delete the machines that are not needed by deleting their CAPI Machine or MachineDeployment
`},
		"inactive, with machines": {kept, `
! Ready|KeptForMachines||2 machines
. 2 machines
> List the machines: drover get -A
> These machines can still be deleted. The CRDs are removed with the last one
`},
	}
}

func TestDriverFacts(t *testing.T) {
	of := func(s *facts.DriverSnapshot) string {
		var list []string
		for _, fact := range explainedDriver(s, "drover").Facts {
			list = append(list, fact.Name+" "+fact.Value)
		}
		return strings.Join(list, " | ")
	}
	s := external()
	require.Equal(t, "driver mycloud | url https://drivers.example/docker-machine-driver-mycloud | machines 0 | age 120m", of(s))
	s.Machines, s.Driver.Spec.URL, s.Driver.Status.MachineKind, s.Driver.Status.Fields = 3, "https://u:MARKER@h.example/d", "MycloudMachine", 12
	require.Equal(t, "driver mycloud | url https://u:xxxxx@h.example/d | kind MycloudMachine | fields 12 | machines 3 | age 120m", of(s))
	s.Machines, s.Driver.Spec.URL, s.Driver.CreationTimestamp = -1, "", metav1.Time{}
	require.Equal(t, "driver mycloud | kind MycloudMachine | fields 12", of(s), "what is not known is left out")
	s.Driver.Spec.DisplayName = "\x1b[31mMy\nCloud"
	require.NotContains(t, of(s), "\x1b")
	s.Driver.CreationTimestamp = ago(-time.Hour)
	require.Contains(t, of(s), "age 0s", "a clock that is behind gives no negative age")
}
