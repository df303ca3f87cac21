package command_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// quantity is a pool's number of machines in the API.
func (c *cluster) quantity(t *testing.T, object *unstructured.Unstructured, pool int) any {
	t.Helper()
	pools, _, err := unstructured.NestedSlice(c.read(t, object).Object, "spec", "rkeConfig", "machinePools")
	require.NoError(t, err)
	return pools[pool].(map[string]any)["quantity"]
}

func TestScale(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, storeCluster)
	require.Equal(t, "cluster.provisioning.cattle.io/store: pool worker scaled from 2 to 3 machines\n", c.ok(t, "scale", "cluster/store", "worker=3"))
	require.Equal(t, int64(3), c.quantity(t, object, 1))
	require.Equal(t, int64(1), c.quantity(t, object, 0))
	require.Equal(t, "cluster.provisioning.cattle.io/store: pool worker scaled from 3 to 0 machines (dry run)\n", c.ok(t, "scale", "store", "worker=0", "--dry-run"))
	require.Equal(t, int64(3), c.quantity(t, object, 1))
	before := c.read(t, object).GetResourceVersion()
	require.Equal(t, "cluster.provisioning.cattle.io/store: pool worker has 3 machines already\n", c.ok(t, "scale", "store", "worker=3"))
	require.Equal(t, before, c.read(t, object).GetResourceVersion())
	require.Equal(t, "cluster.provisioning.cattle.io/store: pool worker scaled from 3 to 1000 machines\ncluster.provisioning.cattle.io/store: pool server scaled from 1 to 0 machines\n",
		c.ok(t, "scale", "store", "worker=1000", "server=0"))

	offered, _ := completions(c.drover(t, "__complete", "scale", "store", ""))
	require.Equal(t, []string{"server=", "worker="}, offered)
	offered, _ = completions(c.drover(t, "__complete", "scale", "cluster/"))
	require.Equal(t, []string{"cluster/store"}, offered)
}

// TestScale_wrong: a mistake changes no pool.
func TestScale_wrong(t *testing.T) {
	c := newCluster(t)
	object := c.apply(t, strings.Replace(storeCluster, "quantity: 2,", "quantity: 2, autoscalingMinSize: 1, autoscalingMaxSize: 5,", 1))
	for arg, want := range map[string]string{
		"worker": `"worker" is not POOL=N, such as worker=3`, "=3": `"=3" is not POOL=N`, "worker=": `the number of machines in "worker=" is not a whole number`,
		"worker=-1": `the number of machines in "worker=-1" is negative`, "worker=1001": `the number of machines in "worker=1001" is larger than 1000`,
		"worker=99999999999999999999": "is larger than 1000", "worker=-99999999999999999999": "is negative", "worker=1.5": "is not a whole number",
	} {
		r := c.drover(t, "scale", "store", "server=0", arg)
		require.Equal(t, 2, r.code, arg)
		require.Contains(t, r.errOut, want)
	}
	require.Equal(t, 2, c.drover(t, "scale", "store").code)
	require.Contains(t, c.drover(t, "scale", "store", "server=0", "server=1").errOut, `pool "server" is given twice`)
	require.Equal(t, `the Cluster store has no pool "wroker"; its pools are server, worker`, requireError(t, c.drover(t, "scale", "store", "server=0", "wroker=1")))
	require.Equal(t, "quantity has no effect in pool worker: the cluster autoscaler sets its number of machines. Change autoscalingMinSize (1) and autoscalingMaxSize (5) instead",
		requireError(t, c.drover(t, "scale", "store", "server=0", "worker=1")))
	require.Contains(t, requireError(t, c.drover(t, "scale", "cluster/none", "worker=1")), `no cluster.provisioning.cattle.io "none"`)
	require.Equal(t, int64(1), c.quantity(t, object, 0))
}

// TestScale_conflict: another change of the Cluster is kept, and another change of the pool is not overwritten.
func TestScale_conflict(t *testing.T) {
	for name, tt := range map[string]struct {
		patch, want string
		machines    int64
	}{
		"another field": {patch: `{"spec":{"kubernetesVersion":"v1.36.2+k3s1"}}`, machines: 3},
		"the same pool": {patch: `[{"op":"replace","path":"/spec/rkeConfig/machinePools/1/quantity","value":7}]`, machines: 7,
			want: "pool worker was scaled from 2 to 7 machines in the meantime; nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			object := c.apply(t, storeCluster)
			kind := types.MergePatchType
			if strings.HasPrefix(tt.patch, "[") {
				kind = types.JSONPatchType
			}
			raced := false
			between := c.through(t, func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && !raced {
					raced = true
					require.NoError(t, c.Patch(t.Context(), object.DeepCopy(), client.RawPatch(kind, []byte(tt.patch))))
				}
				return false
			})
			r := between.drover(t, "scale", "store", "worker=3")
			require.True(t, raced)
			require.Equal(t, tt.machines, c.quantity(t, object, 1))
			if tt.want != "" {
				require.Equal(t, tt.want, requireError(t, r))
				return
			}
			require.Zero(t, r.code, r.errOut)
			version, _, _ := unstructured.NestedString(c.read(t, object).Object, "spec", "kubernetesVersion")
			require.Equal(t, "v1.36.2+k3s1", version)
		})
	}
}

// TestScale_warning: the API server's warnings, which preview the change, are on standard error.
func TestScale_warning(t *testing.T) {
	c := newCluster(t)
	c.apply(t, storeCluster)
	warned := c.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		raw, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.True(t, json.Valid(raw))
		out.Header().Add("Warning", `299 - "pool worker: 2 machines are deleted"`)
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write(raw)
		return true
	})
	r := warned.drover(t, "scale", "store", "worker=0")
	require.Zero(t, r.code, r.errOut)
	require.Equal(t, "Warning: pool worker: 2 machines are deleted\n", r.errOut)
}
