package command_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestOtherKinds: where a command takes machines only, its error names the commands for the kind that the user asked for.
func TestOtherKinds(t *testing.T) {
	c := newCluster(t)
	instead := "use 'drover why cluster/store -n " + c.namespace + "' or 'kubectl get clusters.cluster.x-k8s.io -n " + c.namespace +
		"', and for its machines 'drover get -n " + c.namespace + " -l cluster.x-k8s.io/cluster-name=store'"
	for _, args := range [][]string{{"logs", "cluster/store"}, {"ssh", "cluster/store"}, {"abandon", "cluster/store"}, {"logs", "clusters/store", "--agent"}} {
		r := c.drover(t, args...)
		require.NotZero(t, r.code, args)
		require.Contains(t, r.errOut, instead, args)
	}
	require.Equal(t, 2, c.drover(t, "logs", "cluster/store").code)
	require.Contains(t, requireError(t, c.drover(t, "get", "cluster/store")), instead)
	require.Contains(t, requireError(t, c.drover(t, "get", "md", "-A")), "use 'drover why md/NAME -n "+c.namespace+"' or 'kubectl get machinedeployments.cluster.x-k8s.io -n "+c.namespace+"'")
	require.NotContains(t, requireError(t, c.drover(t, "get", "none")), "kubectl")
}

// TestGet_draining: a machine whose Node is being drained is not shown as running.
func TestGet_draining(t *testing.T) {
	c := newCluster(t)
	c.apply(t, runningMachine)
	owner := capiMachine + `
status:
  conditions:
  - {type: Deleting, status: "True", reason: DrainingNode, message: "Drain not completed yet: 2 Pods", lastTransitionTime: "2026-03-01T11:00:00Z"}
`
	machine := c.apply(t, owner)
	require.Regexp(t, `(?m)^web-1 .* Running `, c.ok(t, "get"))
	machine = c.read(t, machine)
	machine.SetFinalizers([]string{"test.drover.cattle.io/drain"})
	require.NoError(t, c.Update(t.Context(), machine))
	require.NoError(t, c.Delete(t.Context(), machine))
	t.Cleanup(func() {
		_ = c.Patch(context.WithoutCancel(t.Context()), machine, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
	})
	require.Regexp(t, `(?m)^web-1 .* Draining .* DrainingNode *$`, c.ok(t, "get"))
	require.Equal(t, "Draining Drain not completed yet: 2 Pods", c.ok(t, "get", "web-1", "-o", "jsonpath={.items[0].phase} {.items[0].message}"))
}
