package serverscan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// A server that vanishes shows on its machine, so that a MachineHealthCheck can act; what does not change is not written.
func TestScan_tellsMachinesWhetherTheirServerExists(t *testing.T) {
	w := newWorld(t)
	machines := map[string]*unstructured.Unstructured{}
	for _, id := range []string{"1", "2", "3"} {
		machines[id] = w.machine("pool-"+id, w.providerID(id))
	}
	ready := metav1.Condition{Type: rkev1.ReadyCondition, Status: metav1.ConditionTrue, Reason: rkev1.ReadyReason, LastTransitionTime: metav1.NewTime(w.clock.Now())}
	require.NoError(t, unstructured.SetNestedSlice(machines["2"].Object, []any{map[string]any{"type": ready.Type, "status": string(ready.Status), "reason": ready.Reason,
		"message": "", "lastTransitionTime": ready.LastTransitionTime.UTC().Format("2006-01-02T15:04:05Z")}}, "status", "conditions"))
	require.NoError(t, w.client.Status().Update(t.Context(), machines["2"]))
	round := 0
	listed := func(ids ...string) {
		round++
		name := fmt.Sprintf("r%d", round)
		w.scan = &rkev1.ServerScan{ObjectMeta: w.meta(name), Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred"}}
		require.NoError(t, w.client.Create(t.Context(), w.scan))
		w.reconcile()
		var servers []state.ScannedServer
		for _, id := range ids {
			servers = append(servers, w.found(id, string(machines[id].GetUID())))
		}
		w.end(name+"-scan-1", w.report(servers...))
		w.reconcile()
		w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	}
	expect := func(id, condition string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		testkit.ExpectCondition(t, testkit.ExpectExists(t, w.client, machines[id]), condition, status, reason)
	}

	listed("1", "2")
	expect("2", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	expect("3", rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason)
	before := machines["2"].GetResourceVersion()
	listed("1", "2")
	expect("2", rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	require.Equal(t, before, machines["2"].GetResourceVersion())

	listed("1")
	expect("2", rkev1.ServerExistsCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason)
	expect("2", rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason)
	expect("1", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	stillReady, _, _ := unstructured.NestedBool(machines["2"].Object, "status", "ready")
	require.True(t, stillReady, "what was provisioned stays provisioned")

	listed()
	expect("1", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	listed("1", "2")
	expect("2", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)

	// A pool that lost all its servers: the credential that made one has asked, and for the other another one has.
	keepCredential := func(id, token string) {
		kept, err := jobrunner.CredentialSecret(jobrunner.Task{Owner: metav1.NewControllerRef(machines[id], machines[id].GroupVersionKind()),
			Credential: state.Credential{Name: "cred", Env: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": token}},
			Request:    jobrunner.Request{Machine: jobrunner.MachineRef{Namespace: w.namespace, Name: "pool-" + id}, Namespace: w.namespace}})
		require.NoError(t, err)
		testkit.ExpectApplied(t, w.client, kept)
	}
	keepCredential("1", token)
	keepCredential("2", "another")
	listed()
	expect("1", rkev1.ServerExistsCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason)
	expect("2", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	listed("1", "2")
	expect("2", rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	expect("2", rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}
