package command_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/testkit"
)

// manager answers ServerScans of a namespace as the real one does, and keeps what they asked for.
type manager struct {
	asked chan rkev1.ServerScanSpec
}

func (c *cluster) manager(t *testing.T, answer func(*rkev1.ServerScan)) *manager {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts/drover/crds/rke.cattle.io_serverscans.yaml"))
	require.NoError(t, err)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.UnmarshalStrict(raw, crd))
	testkit.ApplyCRDs(t, crd)
	types := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(types))
	scans := testkit.Client(t, types)
	ctx, stop := context.WithCancel(t.Context())
	var changes watch.Interface
	// A kind is served a moment before the list of all kinds tells of it.
	testkit.Eventually(t, 2*time.Minute, func() error {
		changes, err = scans.Watch(ctx, &rkev1.ServerScanList{}, client.InNamespace(c.namespace))
		return err
	})
	m := &manager{asked: make(chan rkev1.ServerScanSpec, 10)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range changes.ResultChan() {
			scan, ok := event.Object.(*rkev1.ServerScan)
			if !ok || event.Type != "ADDED" {
				continue
			}
			m.asked <- scan.Spec
			if answer(scan); len(scan.Status.Conditions) > 0 {
				_ = scans.Status().Update(ctx, scan)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		changes.Stop()
		<-ended
	})
	return m
}

// done is a scan's end.
func done(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: rkev1.ScanDoneCondition, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}}
}

// scanned has one server of each verdict.
func scanned(scan *rkev1.ServerScan) {
	server := func(id, verdict, message string) rkev1.ScannedServerStatus {
		return rkev1.ScannedServerStatus{ID: id, Name: "web-" + id, MachineUID: "uid-" + id, Machine: "shop-web-" + id, Cluster: "store", Verdict: verdict, Message: message,
			Created: &metav1.Time{Time: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}}
	}
	scan.Status = rkev1.ServerScanStatus{Conditions: done(metav1.ConditionTrue, rkev1.ScannedReason, ""), Known: 3, Orphans: 1,
		MachinesNotListed: []string{"web-1"},
		Servers: []rkev1.ScannedServerStatus{server("11", rkev1.VerdictOrphan, "no machine has it"),
			server("12", rkev1.VerdictUncertain, "its Cluster is not in this namespace")}}
	if scan.Spec.Remove {
		scan.Status.Servers[0].Verdict, scan.Status.Orphans = rkev1.VerdictRemoved, 0
	}
}

var atNoon = command.Options{Now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }}

// gc runs the command at a fixed time.
func (c *cluster) gc(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t, atNoon, "", append([]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "gc"}, args...)...)
}

// scansLeft counts the ServerScans that are there.
func (c *cluster) scansLeft(t *testing.T) int {
	t.Helper()
	types := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(types))
	left := &rkev1.ServerScanList{}
	require.NoError(t, testkit.Client(t, types).List(t.Context(), left, client.InNamespace(c.namespace)))
	return len(left.Items)
}

func TestGC(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.apply(t, waitingMachine)
	m := c.manager(t, scanned)
	r := c.gc(t)
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "do-token", GracePeriod: &metav1.Duration{Duration: time.Hour}}, <-m.asked)
	require.Empty(t, m.asked, "one scan for each credential")
	require.Equal(t, "ID    NAME     DRIVER         CLUSTER   MACHINE       AGE   VERDICT     WHY\n"+
		"11    web-11   digitalocean   store     shop-web-11   3h    Orphan      no machine has it\n"+
		"12    web-12   digitalocean   store     shop-web-12   3h    Uncertain   its Cluster is not in this namespace\n", r.out)
	require.Equal(t, "# digitalocean, credential do-token, namespace "+c.namespace+": servers with a machine: 3, orphans: 1\n"+
		"# the cloud lists no server with the tag of machine "+c.namespace+"/web-1\n"+
		"# nothing was changed; 'drover gc --delete' removes the orphans\n", r.errOut)
	require.Equal(t, 1, c.scansLeft(t), "the manager deletes it when its time is over")
}

func TestGC_delete(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	m := c.manager(t, scanned)
	r := c.gc(t, "--delete", "--grace", "24h")
	require.Zero(t, r.code, r.errOut)
	asked := <-m.asked
	require.True(t, asked.Remove)
	require.Equal(t, 24*time.Hour, asked.GracePeriod.Duration)
	require.Contains(t, r.out, "Removed")
	require.Contains(t, r.errOut, "orphans: 0, removed: 1")
	require.NotContains(t, r.errOut, "nothing was changed")
}

func TestGC_json(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.manager(t, scanned)
	r := c.gc(t, "-o", "json")
	require.Zero(t, r.code, r.errOut)
	require.Empty(t, r.errOut, "a script reads the document")
	require.JSONEq(t, `{"apiVersion": "cli.drover.cattle.io/v1", "kind": "ScanList", "items": [{
		"namespace": "`+c.namespace+`", "driver": "digitalocean", "credential": "do-token", "known": 3, "orphans": 1, "machinesNotListed": ["web-1"],
		"servers": [
			{"id": "11", "name": "web-11", "machineUID": "uid-11", "machine": "shop-web-11", "cluster": "store", "created": "2026-03-01T09:00:00Z",
				"verdict": "Orphan", "message": "no machine has it"},
			{"id": "12", "name": "web-12", "machineUID": "uid-12", "machine": "shop-web-12", "cluster": "store", "created": "2026-03-01T09:00:00Z",
				"verdict": "Uncertain", "message": "its Cluster is not in this namespace"}]}]}`, r.out)
}

func TestGC_withoutMachines(t *testing.T) {
	c := newCluster(t)
	m := c.manager(t, scanned)
	r := c.gc(t)
	require.Equal(t, 1, r.code)
	require.Equal(t, "error: no machine uses a credential with which servers could be looked for; name one with --driver and --credential\n", r.errOut)
	require.Empty(t, m.asked)
	r = c.gc(t, "--driver", "digitalocean", "--credential", "mine", "-o", "json")
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, "mine", (<-m.asked).CloudCredentialSecretName)
	r = c.gc(t, "-o", "json", "--driver", "vmwarevsphere")
	require.Equal(t, 1, r.code)
	require.JSONEq(t, `{"apiVersion": "cli.drover.cattle.io/v1", "kind": "ScanList", "items": []}`, r.out)
}

func TestGC_fails(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.manager(t, func(scan *rkev1.ServerScan) {
		scan.Status.Conditions = done(metav1.ConditionFalse, rkev1.ScanJobReason, "the cloud could not be queried (Unauthorized): 401")
	})
	r := c.gc(t)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "namespace "+c.namespace+": the cloud could not be queried (Unauthorized): 401")
	require.Contains(t, r.errOut, "error: 1 of 1 scans failed")
	r = c.gc(t, "-o", "json")
	require.Equal(t, 1, r.code)
	var document struct{ Items []struct{ Error string } }
	require.NoError(t, json.Unmarshal([]byte(r.out), &document))
	require.Contains(t, document.Items[0].Error, "401")
	require.Equal(t, 2, c.scansLeft(t))
}

// Who stops waiting also stops what is under way.
func TestGC_timeout(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	c.manager(t, func(scan *rkev1.ServerScan) {
		scan.Status.Conditions = done(metav1.ConditionUnknown, rkev1.ScanningReason, "Job x asks the cloud")
	})
	r := c.gc(t, "--timeout", "2s")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "# digitalocean: Job x asks the cloud")
	require.Contains(t, r.errOut, "the scan was not done within 2s")
	require.Zero(t, c.scansLeft(t))
}

func TestGC_deletedMeanwhile(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	types := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(types))
	scans := testkit.Client(t, types)
	c.manager(t, func(scan *rkev1.ServerScan) { _ = scans.Delete(context.WithoutCancel(t.Context()), scan.DeepCopy()) })
	r := c.gc(t)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.errOut, "was deleted before it was done")
}
