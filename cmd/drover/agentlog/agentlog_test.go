package agentlog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/agentlog"
)

// reports is the data of a plan Secret whose agent has registered and has this status.
func reports(t *testing.T, status plan.AgentStatus, more map[string]string) map[string][]byte {
	t.Helper()
	raw, err := json.Marshal(status)
	require.NoError(t, err)
	data := map[string][]byte{plan.KeyAgentPublicKey: []byte("key"), plan.KeyAgentStatus: raw, plan.KeyPlan: []byte(`{"files":[{"content":"canary"}]}`)}
	for key, value := range more {
		data[key] = []byte(value)
	}
	return data
}

func output(t *testing.T, name, said string) string {
	t.Helper()
	raw, err := plan.EncodeOutput(map[string][]byte{name: []byte(said)})
	require.NoError(t, err)
	return string(raw)
}

func TestWrite(t *testing.T) {
	version := plan.AgentStatus{Version: "v1", Platform: "linux/amd64"}
	failed := version
	failed.Attempt, failed.Step, failed.Message, failed.Output, failed.RetryAt = 3, "instruction install", "it ended with exit code 1", "no such image\n", "2026-03-01T12:00:00Z"
	stuck := version
	stuck.Proxy = "http://proxy.example.com:3128: connect: connection refused"
	stuck.Running, stuck.Message = "instruction install since 2026-03-01T12:00:00Z", "writing the journal: no space left on device"
	unhealthy := version
	unhealthy.Probes = map[string]string{"kubelet": "connection refused"}
	periodic, err := plan.EncodeOutput(map[string]plan.PeriodicOutput{"snapshots": {Name: "snapshots", Stdout: []byte("two\n"), Stderr: []byte("slow\n"), ExitCode: 2}})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"another agent gave up": {map[string][]byte{plan.KeyPlan: []byte("{}"), plan.KeyState: []byte(plan.StateFailed), plan.KeyFailureCount: []byte("1"),
			plan.KeyFailedOutput: []byte(output(t, "install", strings.Repeat("x", 128<<10)+"\nno such image\n"))}, `
No agent has registered for this machine yet.
Its plan: failed, failed attempts 1.

The agent gave up the plan and reported no cause.

--- instruction install, of the last attempt that failed
`[1:] + strings.Repeat("x", 128<<10-14) + "\nno such image\n"},
		"nothing yet": {map[string][]byte{}, "No agent has registered for this machine yet.\nIt has no plan yet.\n"},
		"failed": {reports(t, failed, map[string]string{plan.KeyState: string(plan.StatePending), plan.KeyFailureCount: "3", plan.KeyLastApplyTime: "Sun Mar  1 11:59:00 UTC 2026",
			plan.KeyFailedOutput: output(t, "install", "pulling\nno such image\n"), plan.KeyAppliedOutput: output(t, "install", "of before")}), `
Agent v1 on linux/amd64.
Its plan: pending, failed attempts 3, last attempt at Sun Mar  1 11:59:00 UTC 2026.

Attempt 3 failed at instruction install: it ended with exit code 1
It tries again at 2026-03-01T12:00:00Z.

--- the end of its output
no such image

--- instruction install, of the last attempt that failed
pulling
no such image
`},
		"stuck": {reports(t, stuck, map[string]string{plan.KeyState: string(plan.StatePending)}), `
Agent v1 on linux/amd64.
Its plan: pending.

The agent cannot go on: writing the journal: no space left on device
Fix the problem that the message names on the server, for example free disk space. The agent retries automatically, within about a minute.

It calls the manager without its proxy, which does not answer: http://proxy.example.com:3128: connect: connection refused.

It is at instruction install since 2026-03-01T12:00:00Z.
`},
		"succeeded": {reports(t, unhealthy, map[string]string{plan.KeyState: string(plan.StateSucceeded), plan.KeyFailureCount: "0",
			plan.KeyProbeStatuses: `{"etcd":{"healthy":true},"kubelet":{},"scheduler":{}}`, plan.KeyPeriodicOutput: string(periodic),
			plan.KeyFailedOutput: output(t, "install", "of before"), plan.KeyAppliedOutput: output(t, "install", "done")}), `
Agent v1 on linux/amd64.
Its plan: ` + string(plan.StateSucceeded) + `.
Probe etcd is healthy.
Probe kubelet is not healthy: connection refused
Probe scheduler is not healthy: it has not answered yet

--- instruction install, of the last attempt that succeeded
done

--- periodic instruction snapshots, exit code 2
two
slow
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.NoError(t, agentlog.Write(&out, &corev1.Secret{Data: tt.data}))
			require.Equal(t, strings.TrimPrefix(tt.want, "\n"), out.String())
		})
	}
}

// Of an agent that was told to clean its host it is told whether it is at that, and whether it calls at all.
func TestWrite_cleaning(t *testing.T) {
	secret := &corev1.Secret{Data: reports(t, plan.AgentStatus{Version: "v1", Platform: "linux/amd64"}, map[string]string{plan.KeyState: string(plan.StateInProgress)})}
	secret.Annotations = map[string]string{rkev1.CleansAnnotation: "uid", rkev1.AgentSeenAnnotation: "2026-03-01T12:00:00Z"}
	var out strings.Builder
	require.NoError(t, agentlog.Write(&out, secret))
	require.Equal(t, "Agent v1 on linux/amd64.\nIt last renewed its access at 2026-03-01T12:00:00Z; it renews it every 3h.\nIts plan, which cleans the host: in-progress.\n", out.String())
}

// TestWrite_lastReport: the agent's last change of its plan Secret is newer than its last renewal of access.
func TestWrite_lastReport(t *testing.T) {
	secret := &corev1.Secret{Data: reports(t, plan.AgentStatus{Version: "v1", Platform: "linux/amd64"}, nil)}
	secret.Annotations = map[string]string{rkev1.AgentSeenAnnotation: "2026-03-01T12:00:00Z"}
	for manager, hour := range map[string]int{"drover-agent": 14, "manager": 15} {
		for _, earlier := range []int{0, 1} {
			changed := metav1.Date(2026, 3, 1, hour-earlier, 30, 0, 0, time.UTC)
			secret.ManagedFields = append(secret.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &changed})
		}
	}
	var out strings.Builder
	require.NoError(t, agentlog.Write(&out, secret))
	require.Contains(t, out.String(), "Its last report: 2026-03-01T14:30:00Z.\nIt last renewed its access at 2026-03-01T12:00:00Z; it renews it every 3h.\n")
}

// A report that cannot be read is an error, and keeps nothing else from being told.
func TestWrite_unreadable(t *testing.T) {
	data := reports(t, plan.AgentStatus{Version: "v1"}, map[string]string{plan.KeyProbeStatuses: "{", plan.KeyAppliedOutput: output(t, "install", "done")})
	var out strings.Builder
	require.ErrorContains(t, agentlog.Write(&out, &corev1.Secret{Data: data}), "reading the probes")
	require.Contains(t, out.String(), "done")
	data[plan.KeyAgentStatus] = []byte("{")
	require.ErrorContains(t, agentlog.Write(&out, &corev1.Secret{Data: data}), "reading the agent's status")
}
