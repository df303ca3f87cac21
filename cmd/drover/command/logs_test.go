package command_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// jobPod makes the pod of a Job, in a phase; no node runs it.
func (c *cluster) jobPod(t *testing.T, name, job string, uid types.UID, phase corev1.PodPhase, waiting string) *corev1.Pod {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "default"}}
	_ = c.Create(t.Context(), account)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Labels: map[string]string{batchv1.JobNameLabel: job, rkev1.MachineUIDLabel: string(uid)}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "machine", Image: "none"}}},
	}
	require.NoError(t, c.Create(t.Context(), pod))
	c.podIs(t, pod, phase, waiting)
	return pod
}

func (c *cluster) podIs(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase, waiting string) {
	t.Helper()
	pod.Status = corev1.PodStatus{Phase: phase}
	if waiting != "" {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "machine", Image: "none", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waiting}}}}
	}
	require.NoError(t, c.Status().Update(t.Context(), pod))
}

// withLogs is the same cluster with a node that has the pods' logs.
func (c *cluster) withLogs(t *testing.T) *cluster {
	t.Helper()
	return c.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		pod, found := strings.CutSuffix(r.URL.Path, "/log")
		if !found {
			return false
		}
		_, _ = io.WriteString(out, fmt.Sprintf("%s container=%s follow=%s\n", pod[strings.LastIndex(pod, "/")+1:], r.URL.Query().Get("container"), r.URL.Query().Get("follow")))
		return true
	})
}

func TestLogsOfARunningJob(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	c.runningJob(t, machine.GetUID())
	c.jobPod(t, "db-1-pod", "db-1-create-3", machine.GetUID(), corev1.PodRunning, "")
	logs := c.withLogs(t)
	require.Equal(t, result{out: "db-1-pod container=machine follow=\n", errOut: "# attempt 3 to create (pod db-1-pod)\n"}, logs.drover(t, "logs", "db-1"))
	require.Equal(t, result{out: "db-1-pod container=machine follow=true\n", errOut: "# attempt 3 to create, running (Job db-1-create-3)\n"}, logs.drover(t, "logs", "db-1", "-f"))
	require.Equal(t, result{out: "db-1-pod container=machine follow=\n", errOut: "# attempt 3 to create (pod db-1-pod)\n"}, logs.drover(t, "logs", "db-1", "--attempt", "3", "--operation", "create"))
	require.Equal(t, "the log asked for is not kept any more; known are: attempt 3 to create", requireError(t, logs.drover(t, "logs", "db-1", "--operation", "remove")))
	require.Equal(t, "nothing is known of an attempt before attempt 3 to create", requireError(t, logs.drover(t, "logs", "db-1", "-p")))
}

// TestLogsWaitForAPod: with -f the first Job is waited for, and why it does not start is told as it changes.
func TestLogsWaitForAPod(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	r := c.withLogs(t).start(t, "logs", "db-1", "-f")
	require.Equal(t, "# db-1: waiting for a Job (phase Pending)", r.errOut.next(r.ctx, t))
	pod := c.jobPod(t, "db-1-pod", "db-1-create-1", machine.GetUID(), corev1.PodPending, "ImagePullBackOff")
	line := r.errOut.next(r.ctx, t)
	if line == "# waiting for pod db-1-pod: Pending" {
		line = r.errOut.next(r.ctx, t)
	}
	require.Equal(t, "# waiting for pod db-1-pod: ImagePullBackOff", line)
	c.podIs(t, pod, corev1.PodRunning, "")
	require.Equal(t, []string{"db-1-pod container=machine follow=true"}, r.lines(t, 1))
	require.Zero(t, <-r.ended)
}

// TestLogsWaitForARemoval: who asks for the log of a removal before it has begun sees it, and not the pod of the create.
func TestLogsWaitForARemoval(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	c.runningJob(t, machine.GetUID())
	created := c.jobPod(t, "db-1-create-pod", "db-1-create-3", machine.GetUID(), corev1.PodRunning, "")
	r := c.withLogs(t).start(t, "logs", "db-1", "-f", "--operation", "remove")
	require.Equal(t, "# db-1: waiting for the Job that removes its server (phase Pending)", r.errOut.next(r.ctx, t))
	c.podIs(t, created, corev1.PodSucceeded, "")
	pod := c.jobPod(t, "db-1-remove-pod", "db-1-remove-1", machine.GetUID(), corev1.PodPending, "")
	pod.Labels[rkev1.OperationLabel] = "remove"
	require.NoError(t, c.Update(t.Context(), pod))
	c.podIs(t, pod, corev1.PodRunning, "")
	require.Equal(t, []string{"db-1-remove-pod container=machine follow=true"}, r.lines(t, 1))
	require.Zero(t, <-r.ended)
}

// TestLogsInterrupted: who waits and goes gets no error.
func TestLogsInterrupted(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	r := c.start(t, "logs", "db-1", "-f")
	require.Equal(t, "# db-1: waiting for a Job (phase Pending)", r.errOut.next(r.ctx, t))
	r.stop()
	require.Equal(t, 130, <-r.ended)
	require.Empty(t, r.errOut.lines)
}

// TestLogsThatAreGone: an attempt that is known, and whose log nobody has any more.
func TestLogsThatAreGone(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	machine.Object["status"].(map[string]any)["lastAttempt"] = map[string]any{"operation": "create", "number": int64(4), "outcome": "Failed", "startTime": "2026-03-01T11:00:00Z"}
	require.NoError(t, c.Status().Update(t.Context(), machine))
	require.Equal(t, "the log of attempt 4 to create is not kept any more: its Job is gone", requireError(t, c.drover(t, "logs", "db-1")))
	other := c.apply(t, runningMachine)
	require.NotEqual(t, machine.GetUID(), other.GetUID())
	require.Equal(t, "no attempt was made for web-1 yet, so no log exists; 'drover why web-1 -n "+c.namespace+"' shows why",
		requireError(t, c.drover(t, "logs", "web-1", "-f")), "a machine that runs needs no further attempt to wait for")
}

// TestLogsWithFewRights: it is not claimed that there is no log when it may not be read.
func TestLogsWithFewRights(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	c.grant(t, "clerk", `{apiGroups: [rke-machine.cattle.io], resources: ["*"], verbs: [get]}`)
	ns := c.namespace
	require.Equal(t, "no log of db-1 was found; what could not be read: getting Secret "+ns+`/db-1-machine-state: secrets "db-1-machine-state" is forbidden: User "clerk" cannot get resource "secrets" in API group "" in the namespace "`+ns+`"`+
		"; listing Jobs in "+ns+`: jobs.batch is forbidden: User "clerk" cannot list resource "jobs" in API group "batch" in the namespace "`+ns+`"`, requireError(t, c.drover(t, "--as", "clerk", "logs", "db-1")))
	c.runningJob(t, machine.GetUID())
	c.jobPod(t, "db-1-pod", "db-1-create-3", machine.GetUID(), corev1.PodRunning, "")
	c.grant(t, "reader", `{apiGroups: [rke-machine.cattle.io, batch, ""], resources: [genericmachines, digitaloceanmachines, jobs, pods, secrets], verbs: [get, list]}`)
	require.Equal(t, `reading the log of pod db-1-pod: pods "db-1-pod" is forbidden: User "reader" cannot get resource "pods/log" in API group "" in the namespace "`+ns+`"`,
		lastError(t, c.drover(t, "--as", "reader", "logs", "db-1")))
}

// lastError is the error of a command that told something before.
func lastError(t *testing.T, r result) string {
	t.Helper()
	require.Equal(t, 1, r.code)
	lines := strings.Split(strings.TrimSuffix(r.errOut, "\n"), "\n")
	last := lines[len(lines)-1]
	require.True(t, strings.HasPrefix(last, "error: "), r.errOut)
	for _, line := range lines[:len(lines)-1] {
		require.True(t, strings.HasPrefix(line, "# "), r.errOut)
	}
	return strings.TrimPrefix(last, "error: ")
}

// TestAgentLogs: what the agent reports is read from the plan Secret of the machine's RKEBootstrap.
func TestAgentLogs(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: store},
  spec: {infrastructureRef: {apiGroup: rke.cattle.io, kind: RKECluster, name: store}}}`)
	machine := c.apply(t, strings.NewReplacer("{dataSecretName: boot}", "{configRef: {apiGroup: rke.cattle.io, kind: RKEBootstrap, name: pool-abc}}",
		"{name: pool-abc}", "{name: pool-abc, finalizers: [x.io/y], labels: {cluster.x-k8s.io/cluster-name: store}}").Replace(capiMachine)+
		`status: {conditions: [{type: PlanApplied, status: Unknown, reason: RetryingPlan, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}]}`)
	require.Contains(t, requireError(t, c.drover(t, "logs", "web-1", "--agent")), "has no plan Secret yet")
	c.secret(t, "pool-abc-machine-plan", map[string]string{plan.KeyPlan: "{}", plan.KeyAgentPublicKey: "k",
		plan.KeyAgentStatus: `{"version":"v1","platform":"linux/amd64","attempt":1,"step":"instruction install","message":"it ended with exit code 1","output":"\u001b[31mno image"}`})
	require.Contains(t, c.ok(t, "logs", "web-1", "--agent"), "Attempt 1 failed at instruction install: it ended with exit code 1\n\n--- the end of its output\nno image\n")
	require.Equal(t, 2, c.drover(t, "logs", "web-1", "--agent", "-f").code)
	for _, name := range []string{"web-1", "cluster/store"} {
		require.Contains(t, c.ok(t, "why", name), "LOG (end of instruction install on the server of Machine pool-abc)\n  no image\n")
	}

	plans := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "pool-abc-machine-plan"}}
	annotate := func(object client.Object, name, value string) {
		require.NoError(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value))))
	}
	annotate(plans, rkev1.CleansAnnotation, "uid")
	require.Contains(t, c.ok(t, "logs", "web-1", "--agent"), "Its plan, which cleans the host: pending")
	require.NoError(t, c.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(c.namespace)))
	require.NoError(t, c.Delete(t.Context(), machine))
	require.Contains(t, requireError(t, c.drover(t, "logs", "web-1", "--agent")), "machine pool-abc, which is being deleted, has no plan Secret any more")

	other := newCluster(t)
	other.apply(t, runningMachine)
	other.apply(t, capiMachine)
	require.Contains(t, requireError(t, other.drover(t, "logs", "web-1", "--agent")), "is not bootstrapped by an RKEBootstrap")
}
