package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

// stateOf is what a report says of the related object of a role; empty when it has none.
func stateOf(s *facts.Snapshot, role string) string {
	for _, item := range explained(s, "drover").Related {
		if item.Role == role {
			return item.Name + ": " + item.State
		}
	}
	return ""
}

func TestRelatedAreInOrder(t *testing.T) {
	s := withJob(running(), &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}})
	require.Equal(t, []explain.Related{
		{Role: "MachineDeployment", Name: "web", State: "ScalingUp, 1 of 3 machines ready"},
		{Role: "MachineSet", Name: "web-x2", State: "1 of 3 machines ready"},
		{Role: "Cluster", Name: "store", State: "infrastructure provisioned"},
		{Role: "CAPI Machine", Name: "web-1", State: "Provisioning, no node yet"},
		{Role: "driver", Name: "NodeDriver digitalocean", State: "ready"},
		{Role: "bootstrap", Name: "Secret web-1-bootstrap", State: "exists (keys format, value)"},
		{Role: "credential", Name: "Secret shop/do-token", State: "exists (keys accessToken)"},
		{Role: "state", Name: "Secret web-1-machine-state", State: "Bootstrapped, attempt 1 to create, server 4711"},
		{Role: "Job", Name: "web-1-create-2", State: "running"},
		{Role: "pod", Name: "web-1-create-2-abcde", State: "Running"},
	}, explained(s, "drover").Related)
	bare := &facts.Snapshot{Now: now, Namespace: "shop", Name: "web-1", Machine: &facts.Machine{Kind: s.Machine.Kind}}
	require.Empty(t, explained(bare, "drover").Related, "nothing is made up")
}

func TestRelatedCluster(t *testing.T) {
	since := ago(time.Minute)
	for name, c := range map[string]struct {
		change func(*facts.Snapshot)
		want   string
	}{
		"provisioned": {func(*facts.Snapshot) {}, "store: infrastructure provisioned"},
		"not yet": {func(s *facts.Snapshot) { s.Cluster.Status.Initialization.InfrastructureProvisioned = nil },
			"store: infrastructure not provisioned yet"},
		"said not to be": {func(s *facts.Snapshot) { s.Cluster.Status.Initialization.InfrastructureProvisioned = new(false) },
			"store: infrastructure not provisioned yet"},
		"paused": {func(s *facts.Snapshot) { s.Cluster.Spec.Paused = new(true) }, "store: infrastructure provisioned, paused"},
		"paused and going": {func(s *facts.Snapshot) { s.Cluster.Spec.Paused, s.Cluster.DeletionTimestamp = new(true), &since },
			"store: infrastructure provisioned, paused, being deleted"},
		"missing":        {func(s *facts.Snapshot) { s.Cluster = nil }, "store: missing"},
		"not to be read": {func(s *facts.Snapshot) { s.Cluster, s.Unread = nil, []facts.Part{facts.ClusterPart} }, "store: could not be read"},
		"named by the machine only": {func(s *facts.Snapshot) { s.Cluster, s.CAPIMachine = nil, nil },
			"store: missing"},
		"named by nobody": {func(s *facts.Snapshot) { s.Cluster, s.CAPIMachine, s.Machine.Labels = nil, nil, nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			c.change(s)
			require.Equal(t, c.want, stateOf(s, "Cluster"))
		})
	}
}

func TestRelatedOwners(t *testing.T) {
	for name, c := range map[string]struct {
		owner facts.Object
		want  string
	}{
		"complete":    {facts.Object{Kind: "MachineSet", Name: "a", Replicas: 2, ReadyReplicas: 2}, "a: 2 of 2 machines ready"},
		"none wanted": {facts.Object{Kind: "MachineSet", Name: "a"}, "a: 0 of 0 machines ready"},
		"going":       {facts.Object{Kind: "MachineSet", Name: "a", Deleting: true, Phase: "ScalingDown", Replicas: 2}, "a: being deleted, ScalingDown, 0 of 2 machines ready"},
		"no replicas": {facts.Object{Kind: "MachineSet", Name: "a", Replicas: -1, ReadyReplicas: -1}, "a: "},
		"odd":         {facts.Object{Kind: "MachineSet", Name: "a", Phase: "\x1b[31mred\nred", Replicas: -1}, "a: red red"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			s.Owners = []facts.Object{c.owner}
			require.Equal(t, c.want, stateOf(s, "MachineSet"))
		})
	}
}

func TestRelatedCAPIMachine(t *testing.T) {
	s := running()
	s.CAPIMachine.Status.Phase = ""
	require.Equal(t, "web-1: no node yet", stateOf(s, "CAPI Machine"))
	s.CAPIMachine.Status.Phase, s.CAPIMachine.Status.NodeRef = "Running", clusterv1.MachineNodeReference{Name: "node-7"}
	require.Equal(t, "web-1: Running, node node-7", stateOf(s, "CAPI Machine"))
	since := ago(time.Minute)
	s.CAPIMachine.DeletionTimestamp = &since
	require.Equal(t, "web-1: Running, being deleted, node node-7", stateOf(s, "CAPI Machine"))
	s.CAPIMachine = nil
	require.Empty(t, stateOf(s, "CAPI Machine"))
}

func TestRelatedDriver(t *testing.T) {
	s := running()
	s.Driver = driver(true)
	require.Equal(t, "NodeDriver digitalocean: not reconciled yet", stateOf(s, "driver"))
	s.Driver = driver(true, condition(v3.ReadyCondition, metav1.ConditionFalse, v3.InactiveReason, "", 1))
	require.Equal(t, "NodeDriver digitalocean: Inactive", stateOf(s, "driver"))
	since := ago(time.Minute)
	s.Driver.DeletionTimestamp = &since
	require.Equal(t, "NodeDriver digitalocean: Inactive, being deleted", stateOf(s, "driver"))
	s.Driver = nil
	require.Empty(t, stateOf(s, "driver"))
}

func TestRelatedSecrets(t *testing.T) {
	s := running()
	s.Bootstrap = &facts.Secret{Namespace: "shop", Name: "b"}
	s.Credential = &facts.Secret{Namespace: "clouds", Name: "c", Found: true}
	require.Equal(t, "Secret b: missing", stateOf(s, "bootstrap"))
	require.Equal(t, "Secret clouds/c: exists, but is empty", stateOf(s, "credential"))
	s.Bootstrap, s.Credential = nil, nil
	require.Empty(t, stateOf(s, "bootstrap"))
	require.Empty(t, stateOf(s, "credential"))
}

func TestRelatedState(t *testing.T) {
	journal := &state.Journal{Operation: state.Create, Attempt: 3, Phase: state.PhaseRecorded}
	for name, c := range map[string]struct {
		state *facts.State
		want  string
	}{
		"not read":       {nil, ""},
		"missing":        {&facts.State{}, ""},
		"empty":          {&facts.State{Name: "s"}, "Secret s: nothing done yet"},
		"unreadable":     {&facts.State{Name: "s", Problems: []string{"bad"}, Journal: journal}, "Secret s: cannot be read in full; a server may exist"},
		"taken over":     {&facts.State{Name: "s", ServerMayExist: true}, "Secret s: has a record of a server that another system created"},
		"under way":      {&facts.State{Name: "s", Journal: journal}, "Secret s: Recorded, attempt 3 to create"},
		"with a server":  {&facts.State{Name: "s", Journal: journal, Server: &state.Server{InstanceID: "i-1"}}, "Secret s: Recorded, attempt 3 to create, server i-1"},
		"without its ID": {&facts.State{Name: "s", Journal: journal, Server: &state.Server{}}, "Secret s: Recorded, attempt 3 to create"},
		"an odd ID":      {&facts.State{Name: "s", Journal: journal, Server: &state.Server{InstanceID: "\x1b[2Ji\n1"}}, "Secret s: Recorded, attempt 3 to create, server i 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			s.State = c.state
			require.Equal(t, c.want, stateOf(s, "state"))
		})
	}
}

func TestRelatedJob(t *testing.T) {
	is := func(kind batchv1.JobConditionType, reason string) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason}
	}
	since := ago(time.Minute)
	for name, c := range map[string]struct {
		job  batchv1.Job
		want string
	}{
		"running":         {batchv1.Job{}, "running"},
		"succeeded":       {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{is(batchv1.JobSuccessCriteriaMet, ""), is(batchv1.JobComplete, "")}}}, "succeeded"},
		"failed":          {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{is(batchv1.JobFailureTarget, ""), is(batchv1.JobFailed, "DeadlineExceeded")}}}, "failed: DeadlineExceeded"},
		"suspended":       {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{is(batchv1.JobSuspended, "")}}}, "suspended"},
		"going":           {batchv1.Job{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &since}}, "being deleted"},
		"not failed":      {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionFalse}}}}, "running"},
		"about to finish": {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{is(batchv1.JobSuccessCriteriaMet, "")}}}, "running"},
	} {
		t.Run(name, func(t *testing.T) {
			s := running()
			c.job.Name = "j"
			s.Jobs = []batchv1.Job{c.job}
			require.Equal(t, "j: "+c.want, stateOf(s, "Job"))
		})
	}
}

func TestRelatedPods(t *testing.T) {
	exited := func(reason string, code int32) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "machine", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}}}}
	}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"running":        {corev1.PodStatus{Phase: corev1.PodRunning}, "Running"},
		"done":           {exited("Completed", 0), "Failed"},
		"exited":         {exited("Error", 3), "Failed: machine exited with 3"},
		"out of memory":  {exited("OOMKilled", 137), "Failed: OOMKilled"},
		"evicted":        {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, "Failed: Evicted"},
		"no image":       {waitingPod("ErrImagePull", "").Status, "Pending: ErrImagePull"},
		"being prepared": {waitingPod("ContainerCreating", "").Status, "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "web-1-create-2-abcde: "+c.want, stateOf(withJob(running(), &corev1.Pod{Status: c.status}), "pod"))
		})
	}
	s := withJob(running(), &corev1.Pod{})
	s.Jobs = nil
	require.Empty(t, stateOf(s, "pod"), "no pod without its Job")
}
