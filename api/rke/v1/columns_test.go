package v1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// columns are what kubectl get shows of the one object at path; wide adds those of -o wide.
func columns(t *testing.T, path string, wide bool) map[string]any {
	t.Helper()
	table := testkit.Table(t, path)
	require.Len(t, table.Rows, 1)
	shown := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 || wide {
			shown[column.Name] = table.Rows[0].Cells[i]
		}
	}
	require.Contains(t, shown, "Age")
	delete(shown, "Age")
	return shown
}

func TestServerShowsClusters(t *testing.T) {
	c, namespace := newClient(t), testkit.Namespace(t)
	cluster := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one", Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}},
		Spec: rkev1.RKEClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}}}
	require.NoError(t, c.Create(t.Context(), cluster))
	path := "/apis/rke.cattle.io/v1/namespaces/" + namespace + "/rkeclusters"
	require.Equal(t, map[string]any{"Name": "one", "Cluster": "prod", "Ready": nil, "Endpoint": "api.example.com"}, columns(t, path, false),
		"before a controller saw it")
	cluster.Status.Conditions = []metav1.Condition{
		{Type: rkev1.PausedCondition, Status: metav1.ConditionTrue, Reason: "Paused", LastTransitionTime: *moment(0)},
		{Type: rkev1.ReadyCondition, Status: metav1.ConditionTrue, Reason: rkev1.ReadyReason, LastTransitionTime: *moment(0)},
	}
	require.NoError(t, c.Status().Update(t.Context(), cluster))
	require.Equal(t, map[string]any{"Name": "one", "Cluster": "prod", "Ready": "True", "Endpoint": "api.example.com", "Port": float64(6443), "Paused": "True"}, columns(t, path, true))
}

func TestServerShowsScans(t *testing.T) {
	c, scan := newClient(t), fullScan(testkit.Namespace(t))
	status := scan.Status
	require.NoError(t, c.Create(t.Context(), scan))
	path := "/apis/rke.cattle.io/v1/namespaces/" + scan.Namespace + "/serverscans"
	require.Equal(t, map[string]any{"Name": "one", "Driver": "digitalocean", "Credential": "one", "Done": nil, "Reason": nil, "Orphans": nil}, columns(t, path, false))
	scan.Status = status
	require.NoError(t, c.Status().Update(t.Context(), scan))
	require.Equal(t, map[string]any{"Name": "one", "Driver": "digitalocean", "Credential": "one", "Done": "True", "Reason": "Scanned", "Orphans": float64(4)},
		columns(t, path, false))
}

// A scan of a large account: what the schema bounds and what only the controller does.
func TestServerTakesTheLargestScan(t *testing.T) {
	c, scan := newClient(t), fullScan(testkit.Namespace(t))
	status := scan.Status
	require.NoError(t, c.Create(t.Context(), scan))
	for len(status.Servers) < 500 {
		status.Servers = append(status.Servers, status.Servers[0])
		status.MachinesNotListed = append(status.MachinesNotListed, "team/"+strings.Repeat("m", 63))
	}
	for i := range status.Servers {
		status.Servers[i].Message = strings.Repeat("why ", 64)
	}
	scan.Status = status
	require.NoError(t, c.Status().Update(t.Context(), scan))
	back := testkit.ExpectExists(t, c, &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: scan.Namespace, Name: scan.Name}})
	require.Equal(t, status, back.Status)
}

// A list of the kinds is read by type, as the manager's cache reads it, with what users made of all sorts in it.
func TestServerListsWhatTheManagerReads(t *testing.T) {
	c, namespace := newClient(t), testkit.Namespace(t)
	for i, period := range []string{"0s", "90m", "1h30m", "999999h999999m999999.999999999s999999999ms", "1.5s", "500ms"} {
		scan := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke.cattle.io/v1", "kind": "ServerScan",
			"metadata": map[string]any{"namespace": namespace, "name": fmt.Sprintf("s%d", i)},
			"spec":     map[string]any{"driver": "digitalocean", "cloudCredentialSecretName": "one", "gracePeriod": period}}}
		require.NoError(t, c.Create(t.Context(), scan), period)
	}
	var scans rkev1.ServerScanList
	require.NoError(t, c.List(t.Context(), &scans, client.InNamespace(namespace)))
	require.Len(t, scans.Items, 6)
	require.Equal(t, 90*time.Minute, scans.Items[1].Spec.GracePeriod.Duration)
	require.Equal(t, scans.Items[1].Spec.GracePeriod, scans.Items[2].Spec.GracePeriod)
	for i := range scans.Items {
		// The manager writes a duration in its own way, which is another text: it must patch, and never send the spec along.
		before := scans.Items[i].DeepCopy()
		scans.Items[i].Finalizers = []string{"example.com/x"}
		require.NoError(t, c.Patch(t.Context(), &scans.Items[i], client.MergeFrom(before)))
		before = scans.Items[i].DeepCopy()
		scans.Items[i].Finalizers = nil
		require.NoError(t, c.Patch(t.Context(), &scans.Items[i], client.MergeFrom(before)))
	}
}
