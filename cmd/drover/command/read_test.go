package command_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/listing"
)

func TestGet(t *testing.T) {
	c := newCluster(t)
	r := c.drover(t, "get")
	require.Zero(t, r.code, r.errOut)
	require.Empty(t, r.out)
	require.Contains(t, r.errOut, "No machines found in namespace "+c.namespace)
	c.apply(t, runningMachine)
	c.apply(t, waitingMachine)

	table := c.ok(t, "get")
	require.Regexp(t, `(?m)^NAME +DRIVER +CLUSTER +PHASE +ADDRESS +AGE +REASON`, table)
	require.Regexp(t, `(?m)^web-1 +digitalocean +store +Running +198\.18\.0\.11 +\d+s`, table)
	require.Regexp(t, `(?m)^db-1 +generic +store +Pending +<none> +\d+s +WaitingForBootstrapData`, table)
	require.Contains(t, c.ok(t, "get", "-A", "-o", "wide"), "digitalocean://4711")
	require.Regexp(t, `(?m)^`+c.namespace+` +web-1`, c.ok(t, "get", "--all-namespaces"))
	require.NotContains(t, c.ok(t, "get", "--no-headers"), "NAME")

	require.Equal(t, "genericmachine.rke-machine.cattle.io/db-1\ndigitaloceanmachine.rke-machine.cattle.io/web-1\n", c.ok(t, "get", "-o", "name"))
	require.Equal(t, "198.18.0.11", c.ok(t, "get", "pool-abc", "-o", "jsonpath={.items[0].address}"))
	require.NotContains(t, c.ok(t, "get", "-l", "cluster.x-k8s.io/cluster-name=other", "-o", "json"), "web-1")

	var list listing.List[listing.Machine]
	require.NoError(t, json.Unmarshal([]byte(c.ok(t, "get", "-o", "json")), &list))
	require.Len(t, list.Items, 2)
	require.Equal(t, "no bootstrap data yet", list.Items[0].Message)
	var fromYAML listing.List[listing.Machine]
	require.NoError(t, yaml.Unmarshal([]byte(c.ok(t, "get", "-o", "yaml")), &fromYAML))
	require.Equal(t, list, fromYAML)

	r = c.drover(t, "get", "web-1", "web-9")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "web-1")
	require.Contains(t, r.errOut, `no machine is called "web-9" in namespace "`+c.namespace+`" (see 'drover get -A')`)
}

func TestGetWatch(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	r := c.start(t, "get", "-w", "--no-headers")
	require.Regexp(t, `^db-1 .*Pending`, r.lines(t, 1)[0])
	c.setPhase(t, machine, "Creating")
	require.Regexp(t, `^db-1 .*Creating`, r.lines(t, 1)[0])
	require.NoError(t, c.Delete(t.Context(), machine))
	require.Regexp(t, `^db-1 .*Deleted`, r.lines(t, 1)[0])
	r.stop()
	require.Zero(t, <-r.ended)
}

// lineWriter hands lines on as they are written.
type lineWriter struct {
	rest  string
	lines chan string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, rest, found := strings.Cut(w.rest, "\n")
		if !found {
			return len(p), nil
		}
		w.lines <- line
		w.rest = rest
	}
}

func (w *lineWriter) next(ctx context.Context, t *testing.T) string {
	t.Helper()
	select {
	case line := <-w.lines:
		return line
	case <-ctx.Done():
		t.Fatal("no further line was written")
		return ""
	}
}

func TestDrivers(t *testing.T) {
	c := newCluster(t)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: digitalocean}, spec: {url: "local://", active: true},
  status: {machineKind: DigitaloceanMachine, fields: 14, conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: nd-7}, spec: {displayName: mycloud, url: "https://drivers.example/d", active: false},
  status: {conditions: [{type: Ready, status: "False", reason: Inactive, message: "spec.active is false\n* Activate it: kubectl patch nodedriver nd-7 now", lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`)
	for _, args := range [][]string{{"drivers"}, {"get", "drivers"}} {
		out := c.ok(t, args...)
		require.Regexp(t, `(?m)^digitalocean +digitalocean +true +true +14 +DigitaloceanMachine`, out)
		require.Regexp(t, `(?m)^nd-7 +mycloud +false +false +0 +<none> +\S+ +Inactive`, out)
	}
	require.Equal(t, "nodedriver.management.cattle.io/nd-7\n", c.ok(t, "drivers", "mycloud", "-o", "name"))
	require.Contains(t, c.ok(t, "why", "driver/nd-7"), "spec.active is false\n")
	require.Contains(t, c.ok(t, "why", "mycloud"), " patch nodedriver nd-7", "a bare name may be a driver's")
	r := c.drover(t, "why", "nodedriver/none")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, `no driver "none"`)
	require.Contains(t, c.ok(t, "__complete", "why", "driver/n"), "driver/nd-7\n")
}

func TestWhy(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	c.apply(t, runningMachine)
	c.apply(t, capiMachine)
	c.secret(t, "do-token", map[string]string{"accessToken": "SECRET-MARKER"})
	c.secret(t, "boot", map[string]string{"value": "SECRET-MARKER"})
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "e"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "GenericMachine", Name: "db-1", Namespace: c.namespace, UID: machine.GetUID()},
		Type:           corev1.EventTypeNormal, Reason: "WaitingForBootstrapData", Message: "nothing yet", LastTimestamp: metav1.Now(),
	}
	require.NoError(t, c.Create(t.Context(), event))

	out := c.ok(t, "why", "db-1")
	require.Contains(t, out, "WaitingForBootstrapData")
	require.Regexp(t, `Normal +WaitingForBootstrapData +GenericMachine/db-1 +nothing yet`, out)
	out = c.ok(t, "why", "pool-abc")
	require.Contains(t, out, "DigitaloceanMachine "+c.namespace+"/web-1", "the CAPI Machine's name leads to the machine")
	require.Contains(t, out, "Secret "+c.namespace+"/do-token")
	require.Contains(t, out, "exists (keys accessToken)")
	require.Contains(t, out, "exists (keys value)")

	var report explain.Report
	text := c.ok(t, "why", "web-1", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(text), &report))
	require.Equal(t, "Running", report.Phase)
	require.NotContains(t, out+text+c.ok(t, "why", "web-1", "-o", "yaml"), "SECRET-MARKER")

	r := c.drover(t, "why", "nothing")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, `no machine "nothing" in namespace`)
	r = c.drover(t, "why", "md/nothing")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "no MachineDeployment or MachineSet")
}

func TestWhyWithoutMachine(t *testing.T) {
	c := newCluster(t)
	c.apply(t, capiMachine)
	require.Contains(t, c.ok(t, "why", "machine/pool-abc"), "CAPI Machine "+c.namespace+"/pool-abc")
	r := c.drover(t, "ssh", "pool-abc")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "has no machine of Drover (see 'drover why pool-abc')")

	c.secret(t, "old-machine-state", map[string]string{"journal.json": `{"operation":"create","attempt":1,"phase":"Intent","instanceName":"old"}`})
	require.Contains(t, c.ok(t, "why", "old"), "erver may exist")
}

func TestAmbiguousName(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, strings.Replace(waitingMachine, "name: db-1", "name: web-1", 1))
	r := c.drover(t, "why", "web-1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "digitaloceanmachine.rke-machine.cattle.io/web-1, genericmachine.rke-machine.cattle.io/web-1")
	require.Contains(t, c.ok(t, "why", "genericmachine/web-1"), "GenericMachine")
	r = c.drover(t, "why", "nonsense/web-1")
	require.Equal(t, 2, r.code, "a mistake in the command line")
	require.Contains(t, r.errOut, `no kind of machines is called "nonsense"`)
}

func TestNameInAnotherNamespace(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	other.apply(t, strings.Replace(waitingMachine, "db-1", "only-there", 1))
	r := c.drover(t, "ssh", "only-there")
	require.Equal(t, 255, r.code)
	require.Contains(t, r.errOut, "there is one in namespace "+other.namespace+" (use -n)")
}

func TestLogs(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	r := c.drover(t, "logs", "db-1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "no attempt was made for db-1 yet")

	machine.Object["status"].(map[string]any)["lastAttempt"] = map[string]any{
		"operation": "create", "number": int64(1), "outcome": "Failed", "startTime": "2026-03-01T11:00:00Z", "logTail": "tail of one"}
	require.NoError(t, c.Status().Update(t.Context(), machine))
	r = c.drover(t, "logs", "db-1")
	require.Equal(t, "tail of one\n", r.out)
	require.Contains(t, r.errOut, "attempt 1 to create of db-1, failed (the end of it, kept in the machine's status)")

	c.secret(t, "db-1-machine-state", map[string]string{
		"log.txt": "all of two\n", "result.json": `{"operation":"create","attempt":2,"outcome":"Failed","startTime":"2026-03-01T11:05:00Z"}`})
	require.Equal(t, "all of two\n", c.ok(t, "logs", "db-1"))
	require.Equal(t, "tail of one\n", c.ok(t, "logs", "db-1", "--previous"))
	require.Equal(t, "tail of one\n", c.ok(t, "logs", "db-1", "--attempt", "1"))
	r = c.drover(t, "logs", "db-1", "--attempt", "3")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "known are: attempt 2 to create, attempt 1 to create")

	c.runningJob(t, machine.GetUID())
	r = c.drover(t, "logs", "db-1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "the pod of attempt 3 to create has not started")
}

// runningJob makes a Job without a pod: no controller runs here.
func (c *cluster) runningJob(t *testing.T, uid types.UID) {
	t.Helper()
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "machine", Image: "none"}}}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "db-1-create-3", Labels: map[string]string{
			rkev1.MachineUIDLabel: string(uid), rkev1.OperationLabel: "create", rkev1.AttemptLabel: "3"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}},
	}
	require.NoError(t, c.Create(t.Context(), job))
}

func TestVersion(t *testing.T) {
	c := newCluster(t)
	require.Contains(t, c.ok(t, "version"), "Kubernetes v1.")
	require.Contains(t, c.ok(t, "version", "-o", "json"), `"kubernetes": "v1.`)
}

// TestFewRights: who may read machines and nothing else still learns what can be told.
func TestFewRights(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	c.apply(t, capiMachine)
	c.grant(t, "alice", "{apiGroups: [rke-machine.cattle.io], resources: [genericmachines], verbs: [get, list]}")
	r := c.drover(t, "get", "--as", "alice")
	require.Zero(t, r.code, r.errOut)
	require.Regexp(t, `(?m)^db-1 +generic `, r.out)
	require.Contains(t, r.errOut, "you lack the right to list digitaloceanmachines.rke-machine.cattle.io in namespace "+c.namespace)
	out := c.ok(t, "why", "db-1", "--as", "alice")
	require.Contains(t, out, "WaitingForBootstrapData")
	require.Contains(t, out, "COULD NOT BE READ")
	require.Contains(t, out, `User "alice" cannot `)
	for _, args := range [][]string{{"ssh", "db-1"}, {"retry", "db-1"}} {
		r := c.drover(t, append(args, "--as", "alice")...)
		require.Contains(t, []int{1, 255}, r.code)
		require.Contains(t, r.errOut, "forbidden")
	}
	r = c.drover(t, "get", "--as", "bob")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "you may not list: digitaloceanmachines, genericmachines")
}

func TestWhyOfAProbe(t *testing.T) {
	c := newCluster(t)
	c.apply(t, `{apiVersion: management.cattle.io/v3, kind: NodeDriver, metadata: {name: probed}, spec: {url: "https://drivers.example/d", active: true, checksum: "`+strings.Repeat("a", 64)+`"},
  status: {conditions: [{type: Valid, status: "True", reason: Valid, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"},
  {type: Downloaded, status: "Unknown", reason: Probing, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}]}}`)
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover-drivers"}})))
	c.make(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-drivers", Name: "default"}})
	probes := &cluster{Client: c.Client, namespace: "drover-drivers"}
	probes.secret(t, "probe-probed-result", map[string]string{"log.txt": "GET https://drivers.example/d\n"})
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "report", Image: "none"}}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-drivers", Name: "probe-probed-1", Labels: map[string]string{
		rkev1.NodeDriverLabel: "probed", rkev1.OperationLabel: "probe"}}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	c.make(t, job)
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "drover-drivers", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Spec: pod}
	waiting.Spec.AutomountServiceAccountToken = new(false)
	c.make(t, waiting)
	waiting.Status.Phase = corev1.PodPending
	waiting.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	require.NoError(t, c.Status().Update(t.Context(), waiting))

	out := c.ok(t, "why", "driver/probed")
	require.Contains(t, out, "The Job's pod does not fit on any node of the management cluster.")
	require.Contains(t, out, "0/1 nodes are available")
	require.Contains(t, out, "GET https://drivers.example/d")
	require.Contains(t, out, " -n drover-drivers describe pod p")
}
