package v1_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// columns are what kubectl get shows of the one object at path; wide adds those of -o wide.
func columns(t *testing.T, path string, wide bool) map[string]any {
	t.Helper()
	config := testkit.Config(t)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var table metav1.Table
	require.NoError(t, json.NewDecoder(response.Body).Decode(&table))
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
	require.Equal(t, map[string]any{"Name": "one", "Cluster": "prod", "Ready": "True", "Endpoint": "api.example.com", "Paused": "True"}, columns(t, path, true))
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

// FuzzMachineStatus: whatever a status holds that can be read, a copy of it says the same and shares nothing, and it is written as it was read.
func FuzzMachineStatus(f *testing.F) {
	status := fullStatus()
	full, err := json.Marshal(status)
	require.NoError(f, err)
	f.Add(full)
	f.Add([]byte(`{"conditions":[null,{}],"lastAttempt":{},"initialization":{},"nextAttemptTime":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var status rkev1.RKEMachineStatus
		if json.Unmarshal(raw, &status) != nil {
			return
		}
		written, err := json.Marshal(status)
		if err != nil {
			return // a year of five digits
		}
		copied := status.DeepCopy()
		require.JSONEq(t, string(written), marshal(t, copied))
		var again rkev1.RKEMachineStatus
		require.NoError(t, json.Unmarshal(written, &again))
		require.JSONEq(t, string(written), marshal(t, again))
	})
}
