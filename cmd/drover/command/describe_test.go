package command_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/cmd/drover/explain"
)

// withMachines adds a server that runs, and a worker whose machine waits, to storeCluster.
func withMachines(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	c.apply(t, storeCluster)
	pool := func(manifest, pool string) string {
		return strings.Replace(manifest, "labels: {", "labels: {rke.cattle.io/rke-machine-pool-name: "+pool+", ", 1)
	}
	c.apply(t, pool(runningMachine, "server"))
	c.apply(t, pool(waitingMachine, "worker"))
	c.apply(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: pool-abc, labels: {cluster.x-k8s.io/cluster-name: store, rke.cattle.io/rke-machine-pool-name: server}}
spec:
  clusterName: store
  bootstrap: {dataSecretName: boot}
  infrastructureRef: {apiGroup: rke-machine.cattle.io, kind: DigitaloceanMachine, name: web-1}
status:
  phase: Running
  nodeRef: {name: node-1}
  conditions: [{type: NodeHealthy, status: "True", reason: NodeHealthy, message: "", lastTransitionTime: "2026-03-01T11:00:00Z"}]
`)
	return c
}

func TestDescribe(t *testing.T) {
	c := withMachines(t)
	for _, name := range []string{"cluster/store", "store", "cluster.provisioning.cattle.io/store"} {
		out := c.ok(t, "describe", name)
		for _, line := range []string{
			"Cluster " + c.namespace + "/store (provisioning.cattle.io)  NotReady  v1.36.3+k3s1",
			"Pool server (etcd, control plane): 1 wanted, 1 made, 1 ready, 1 up to date\n│  └─ Machine pool-abc  Running\n",
			"digitaloceanmachine.rke-machine.cattle.io/web-1  Running  digitalocean://4711  198.18.0.11\n",
			"Node node-1  ready\n", "Pool worker (worker): 2 wanted, 1 made, 0 ready, 1 up to date\n", "step: BootstrapReady  WaitingForBootstrapData\n",
		} {
			require.Contains(t, out, line)
		}
		require.Equal(t, 2, strings.Count(out, "cause: "), out)
		require.Equal(t, 2, strings.Count(out, "next: "), out)
	}
	var d explain.Description
	require.NoError(t, json.Unmarshal([]byte(c.ok(t, "describe", "store", "-o", "json")), &d))
	require.Equal(t, "NotReady", d.Phase)
	require.Len(t, d.Pools, 2)
	require.Equal(t, "digitalocean://4711", d.Pools[0].Machines[0].ProviderID)
	require.Equal(t, int32(2), d.Pools[1].Wanted)
	require.Contains(t, c.ok(t, "describe", "store", "-o", "yaml"), "kind: ClusterDescription")

	require.Contains(t, requireError(t, c.drover(t, "describe", "cluster/none")), `no cluster.provisioning.cattle.io "none" in namespace`)
	require.Equal(t, 2, c.drover(t, "describe").code)
	require.Equal(t, 2, c.drover(t, "describe", "store", "-o", "wide").code)
	offered, _ := completions(c.drover(t, "__complete", "describe", "cluster/"))
	require.Equal(t, []string{"cluster/store"}, offered)
	offered, _ = completions(c.drover(t, "__complete", "describe", ""))
	require.Equal(t, []string{"store"}, offered)
}

// TestDescribe_rights: objects that the user may not read are named, and the others shown.
func TestDescribe_rights(t *testing.T) {
	c := withMachines(t)
	c.grant(t, "viewer", `{apiGroups: [provisioning.cattle.io], resources: [clusters], verbs: [get]}`)
	out := c.ok(t, "describe", "store", "--as", "viewer")
	require.Contains(t, out, "Pool worker (worker): 2 wanted, 1 made, 0 ready, 1 up to date\n")
	require.Contains(t, out, "could not be read: listing machines: ")
	require.Contains(t, requireError(t, c.drover(t, "describe", "store", "--as", "stranger")), `cannot get resource "clusters"`)
}

// TestDescribe_watch: the tree is printed again after a change of the Cluster or of a machine, not as time passes, until the Cluster is gone.
func TestDescribe_watch(t *testing.T) {
	c := withMachines(t)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	out, ended := &lineWriter{lines: make(chan string, 1000)}, make(chan int, 1)
	go func() {
		ended <- command.Execute(ctx, command.Options{Name: "drover", Interval: 50 * time.Millisecond, Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard}},
			[]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace, "describe", "store", "-w"})
	}()
	until := func(text string) {
		trees := 0
		for {
			line := out.next(ctx, t)
			if strings.HasPrefix(line, "Cluster ") {
				trees++
			}
			if strings.Contains(line, text) {
				require.LessOrEqual(t, trees, 2)
				return
			}
		}
	}
	until("step: BootstrapReady")
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("rke-machine.cattle.io/v1")
	machine.SetKind("GenericMachine")
	machine.SetNamespace(c.namespace)
	machine.SetName("db-1")
	c.setPhase(t, machine, "Creating")
	until("genericmachine.rke-machine.cattle.io/db-1  Creating")
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("provisioning.cattle.io/v1")
	object.SetKind("Cluster")
	object.SetNamespace(c.namespace)
	object.SetName("store")
	c.setReady(t, object, "True", "", 1)
	until("  Ready  v1.36.3+k3s1")
	require.NoError(t, c.Delete(ctx, object))
	require.Zero(t, <-ended)
}
