package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// setReady sets the status of the condition Ready and the observed generation.
func (c *cluster) setReady(t *testing.T, object *unstructured.Unstructured, status, message string, generation int64) {
	t.Helper()
	fresh := c.read(t, object)
	conditions, _, err := unstructured.NestedSlice(fresh.Object, "status", "conditions")
	require.NoError(t, err)
	for _, condition := range conditions {
		if fields := condition.(map[string]any); fields["type"] == "Ready" {
			fields["status"], fields["message"] = status, message
		}
	}
	require.NoError(t, unstructured.SetNestedSlice(fresh.Object, conditions, "status", "conditions"))
	require.NoError(t, unstructured.SetNestedField(fresh.Object, generation, "status", "observedGeneration"))
	require.NoError(t, c.Status().Update(t.Context(), fresh))
}

// kept gives an object a finalizer, so that its deletion takes until free is called.
func (c *cluster) kept(t *testing.T, object *unstructured.Unstructured) (free func()) {
	t.Helper()
	fresh := c.read(t, object)
	fresh.SetFinalizers([]string{"drover.cattle.io/provisioning-cluster"})
	require.NoError(t, c.Update(t.Context(), fresh))
	free = func() {
		_ = c.Patch(context.WithoutCancel(t.Context()), object.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	}
	t.Cleanup(free)
	return free
}

// TestWait_ready: a Cluster is ready once Ready is True for the current specification, not before.
func TestWait_ready(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, storeCluster)
	r := c.start(t, "wait", "cluster/store", "--for", "ready")
	require.Equal(t, "# Ready: WaitingForMachines: pool worker: 0 of 2 machines are ready", r.errOut.next(r.ctx, t))
	c.setReady(t, object, "False", "pool worker: 1 of 2 machines are ready", 1)
	require.Equal(t, "# Ready: WaitingForMachines: pool worker: 1 of 2 machines are ready", r.errOut.next(r.ctx, t))
	c.setReady(t, object, "True", "", 0)
	require.Equal(t, "# Ready: NotReconciled: no manager has reconciled the current specification yet", r.errOut.next(r.ctx, t))
	c.setReady(t, object, "True", "", 1)
	require.Equal(t, "cluster.provisioning.cattle.io/store: ready", r.lines(t, 1)[0])
	require.Zero(t, <-r.ended)
	require.Equal(t, "cluster.provisioning.cattle.io/store: ready\n", c.ok(t, "wait", "store", "--for=ready", "--timeout", "0"))
}

// TestWait_ends: a wait that cannot succeed ends with the code and the reason.
func TestWait_ends(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, storeCluster)
	require.Equal(t, "the Cluster store is not ready after 300ms: Ready: WaitingForMachines: pool worker: 0 of 2 machines are ready (see 'drover describe cluster/store -n "+c.namespace+"')",
		lastLine(t, c.drover(t, "wait", "store", "--for", "ready", "--timeout", "300ms")))
	for _, args := range [][]string{{"wait", "store"}, {"wait", "store", "--for", "gone"}, {"wait", "store", "--for", "ready", "--timeout", "-1s"}, {"wait", "--for", "ready"}} {
		require.Equal(t, 2, c.drover(t, args...).code, args)
	}
	require.Contains(t, requireError(t, c.drover(t, "wait", "none", "--for", "ready")), `no cluster.provisioning.cattle.io "none"`)
	require.Equal(t, "cluster.provisioning.cattle.io/none: deleted\n", c.ok(t, "wait", "none", "--for", "deleted"))

	c.grant(t, "reader", `{apiGroups: [provisioning.cattle.io], resources: [clusters], verbs: [get]}`)
	require.Contains(t, lastLine(t, c.drover(t, "wait", "store", "--for", "ready", "--as", "reader")), `cannot list resource "clusters"`)

	stopped := c.start(t, "wait", "store", "--for", "ready")
	stopped.errOut.next(stopped.ctx, t)
	stopped.stop()
	require.Equal(t, 130, <-stopped.ended)

	r := c.start(t, "wait", "store", "--for", "ready")
	r.errOut.next(r.ctx, t)
	require.NoError(t, c.Delete(t.Context(), object))
	require.Equal(t, "error: the Cluster store was deleted", r.errOut.next(r.ctx, t))
	require.Equal(t, 1, <-r.ended)
}

// lastLine is the error of a command that reported progress before.
func lastLine(t *testing.T, r result) string {
	t.Helper()
	require.Equal(t, 1, r.code, r.errOut)
	lines := strings.Split(strings.TrimSuffix(r.errOut, "\n"), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "error: ")
}

// TestWait_deleted: the remaining machines are named until the Cluster is gone. A Cluster that is created again under the name is another one.
func TestWait_deleted(t *testing.T) {
	c := withMachines(t)
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("provisioning.cattle.io/v1")
	object.SetKind("Cluster")
	object.SetNamespace(c.namespace)
	object.SetName("store")
	free := c.kept(t, object)
	r := c.start(t, "wait", "cluster/store", "--for", "deleted")
	require.Equal(t, "# its deletion was not requested", r.errOut.next(r.ctx, t))
	require.NoError(t, c.Delete(t.Context(), object.DeepCopy()))
	require.Equal(t, "# Ready: NotReconciled: no manager has reconciled the current specification yet; 2 machines left: pool-abc, db-1 (BootstrapReady WaitingForBootstrapData)",
		r.errOut.next(r.ctx, t))
	free()
	require.Equal(t, "cluster.provisioning.cattle.io/store: deleted", r.lines(t, 1)[0])
	require.Zero(t, <-r.ended)
}

func TestDelete(t *testing.T) {
	c := withMachines(t)
	r := c.drover(t, "delete", "cluster/store")
	require.Equal(t, 1, r.code)
	require.Equal(t, "error: this needs a yes: call it in a terminal, or with --yes\n", r.errOut)
	require.Equal(t, "The Cluster store in namespace "+c.namespace+" has 2 machines. The servers and all data on them are deleted:\n- pool-abc  198.18.0.11\n- db-1\n", strings.ReplaceAll(r.out, "- pool-abc 198", "- pool-abc  198"))
	require.Equal(t, 2, c.drover(t, "delete", "store", "--timeout", "-1s").code)

	out := c.ok(t, "delete", "cluster/store", "--yes")
	require.True(t, strings.HasSuffix(out, "cluster.provisioning.cattle.io/store: deletion requested\ncluster.provisioning.cattle.io/store: deleted\n"), out)
	require.Contains(t, requireError(t, c.drover(t, "delete", "cluster/store", "--yes")), `no cluster.provisioning.cattle.io "store"`)
}

// TestDelete_progress: the machines that remain are shown as they go, also without a change of the Cluster.
func TestDelete_progress(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, storeCluster)
	machine := c.apply(t, waitingMachine)
	free := c.kept(t, object)
	require.Equal(t, 0, c.drover(t, "delete", "store", "--yes", "--wait=false").code)
	require.Contains(t, lastLine(t, c.drover(t, "delete", "store", "--timeout", "300ms")), "the Cluster store is not deleted after 300ms: Ready: NotReconciled")

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	errOut, ended := &lineWriter{lines: make(chan string, 100)}, make(chan int, 1)
	var out bytes.Buffer
	go func() {
		ended <- command.Execute(ctx, command.Options{Name: "drover", Interval: 50 * time.Millisecond, Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: errOut}},
			[]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "delete", "store"})
	}()
	require.Contains(t, errOut.next(ctx, t), "1 machine left: db-1")
	require.NoError(t, c.Delete(ctx, machine))
	require.Contains(t, errOut.next(ctx, t), "no machine left")
	free()
	require.Zero(t, <-ended)
	require.Equal(t, "cluster.provisioning.cattle.io/store: deletion requested\ncluster.provisioning.cattle.io/store: deleted\n", out.String())
}

// TestClusterResults: commands that change a Cluster or wait for it print the Cluster for programs.
func TestClusterResults(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, storeCluster)
	item := func(text string) listing.Cluster {
		var list listing.List[listing.Cluster]
		require.NoError(t, json.Unmarshal([]byte(text), &list))
		require.Equal(t, "ClusterList", list.Kind)
		require.Len(t, list.Items, 1)
		return list.Items[0]
	}
	require.Equal(t, "Unknown", item(c.ok(t, "scale", "store", "worker=3", "-o", "json")).Ready)
	require.Equal(t, "cluster.provisioning.cattle.io/store\n", c.ok(t, "scale", "store", "worker=3", "-o", "name"))
	c.setReady(t, object, "True", "", 2)
	require.Equal(t, "True", item(c.ok(t, "wait", "store", "--for", "ready", "-o", "json")).Ready)
	require.Contains(t, c.ok(t, "wait", "none", "--for", "deleted", "-o", "yaml"), "items: []")
	require.Equal(t, "cluster.provisioning.cattle.io/store\n", c.ok(t, "delete", "store", "--yes", "-o", "name"))
	for _, args := range [][]string{{"scale", "store", "worker=3", "-o", "wide"}, {"create", "cluster", "x", "--driver", "d", "--dry-run", "-o", "json"}} {
		require.Equal(t, 2, c.drover(t, args...).code, args)
	}
}
