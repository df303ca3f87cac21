package managementcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/capi/workload"
	"github.com/drover-project/drover/controllers/managementcluster"
	"github.com/drover-project/drover/testkit"
)

// changing are the totals of all workload clusters, which change while a manager runs.
type changing struct {
	mu    sync.Mutex
	nodes int32
	calls int
	wake  func(client.ObjectKey)
}

func (c *changing) Totals(context.Context, client.ObjectKey) (*workload.Totals, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return &workload.Totals{Nodes: c.nodes}, nil
}

func (c *changing) OnTotals(wake func(client.ObjectKey)) { c.wake = wake }

// TestRegister: every event that matters wakes the controller, and a flood of changed Nodes does not.
func TestRegister(t *testing.T) {
	w := newWorld(t, nil)
	w.controlPlane(t, metav1.ConditionTrue, "v1.36.3+k3s1")
	totals := &changing{nodes: 1}
	mgr, err := ctrl.NewManager(testkit.Config(t), ctrl.Options{Scheme: w.client.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	r := managementcluster.New(managementcluster.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Totals: totals, Clock: w.clock, Namespace: w.cluster.Namespace})
	require.NoError(t, r.Register(t.Context(), mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })

	const patience = time.Minute
	named := func(obj *provv1.Cluster) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			testkit.ExpectExists(t, w.client, obj)
			if obj.Status.ClusterName == "" {
				return fmt.Errorf("no management Cluster: %v", obj.Status.Conditions)
			}
			return nil
		})
	}
	gone := func(obj client.Object) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil || err != nil {
				return client.IgnoreNotFound(err)
			}
			return fmt.Errorf("%s is still there", obj.GetName())
		})
	}
	counted := func(nodes int32) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			if found := w.management(t).Status.NodeCount; found != nodes {
				return fmt.Errorf("%d Nodes", found)
			}
			return nil
		})
	}
	named(w.cluster)
	counted(1)

	w.clock.SetTime(w.clock.Now().Add(time.Minute)) // the status may be written again
	totals.mu.Lock()
	totals.nodes, totals.calls = 2, 0
	totals.mu.Unlock()
	for range 10_000 {
		totals.wake(client.ObjectKeyFromObject(w.cluster))
	}
	counted(2)
	totals.mu.Lock()
	require.Less(t, totals.calls, 100)
	totals.mu.Unlock()

	// A Cluster that waits for a name gets it when it becomes free.
	waiting := newCluster(w.cluster.Namespace, "two")
	waiting.Annotations = map[string]string{provv1.ManagementClusterNameAnnotation: w.cluster.Status.ClusterName}
	require.NoError(t, w.client.Create(t.Context(), waiting))
	testkit.Eventually(t, patience, func() error {
		testkit.ExpectExists(t, w.client, waiting)
		if len(waiting.Status.Conditions) == 0 {
			return fmt.Errorf("no condition")
		}
		testkit.ExpectCondition(t, waiting, provv1.ManagementClusterCondition, metav1.ConditionFalse, provv1.NameTakenReason)
		return nil
	})
	require.NoError(t, w.client.Delete(t.Context(), w.cluster))
	gone(w.cluster)
	named(waiting)

	management := &v3.Cluster{ObjectMeta: metav1.ObjectMeta{Name: waiting.Status.ClusterName}}
	require.NoError(t, w.client.Delete(t.Context(), management))
	gone(waiting)
	gone(management)
}
