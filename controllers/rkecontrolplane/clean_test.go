package rkecontrolplane_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/bootstrap"
)

// machineOnHost is a machine on a host that was there before, with its infra machine.
func (w *world) machineOnHost(name string, roles ...string) *unstructured.Unstructured {
	w.Helper()
	machine := w.machine(name, roles...)
	machine.Finalizers = []string{clusterv1.MachineFinalizer}
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: "GenericMachine", Name: name}
	require.NoError(w, w.Update(w.Context(), machine))
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	infra.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("GenericMachine"))
	infra.SetNamespace(machine.Namespace)
	infra.SetName(name)
	infra.SetFinalizers([]string{rkev1.MachineFinalizer})
	infra.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(w, w.Create(w.Context(), infra))
	w.registered(name)
	return infra
}

// registered has the endpoint know a machine's agent.
func (w *world) registered(name string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	secret.Data = map[string][]byte{plan.KeyAgentPublicKey: []byte("key")}
	require.NoError(w, w.Update(w.Context(), secret))
}

// asks has the infra machine ask for its host to be cleaned.
func (w *world) asks(infra *unstructured.Unstructured, uid string) {
	w.Helper()
	infra.SetAnnotations(map[string]string{rkev1.CleanByPlanAnnotation: uid})
	require.NoError(w, w.Update(w.Context(), infra))
}

// goes has a Machine and its infra machine be deleted, and stay for as long as the test wants.
func (w *world) goes(infra *unstructured.Unstructured) {
	w.Helper()
	require.NoError(w, w.Delete(w.Context(), w.machineNamed(infra.GetName())))
	require.NoError(w, w.Delete(w.Context(), infra))
	require.NoError(w, w.Get(w.Context(), client.ObjectKeyFromObject(infra), infra))
}

// expectCleaning expects the plan that cleans the host of a machine, and that nothing else changed which is not the planner's.
func (w *world) expectCleaning(name, uid string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	want, err := bootstrap.CleanPlan(bootstrap.NewClean(uid, bootstrap.MarkerRoot))
	require.NoError(w, err)
	require.Equal(w, string(want), string(secret.Data[plan.KeyPlan]))
	require.Equal(w, string(plan.StatePending), string(secret.Data[plan.KeyState]))
	require.Equal(w, "-1", string(secret.Data[plan.KeyMaxFailures]))
	require.Empty(w, secret.Data[plan.KeyProbeStatuses])
	require.Equal(w, "key", string(secret.Data[plan.KeyAgentPublicKey]))
	require.Equal(w, uid, secret.Annotations[rkev1.CleansAnnotation])
	require.NotContains(w, secret.Annotations, rkev1.JoinedToAnnotation, "it is no member any more")
	require.NotContains(w, secret.Annotations, rkev1.JoinURLAnnotation)
	require.NotContains(w, secret.Labels, rkev1.InitNodeLabel)
}

// withWorker is a cluster with a worker on a host, which is well.
func withWorker(t *testing.T) (*world, *unstructured.Unstructured) {
	t.Helper()
	w := newWorld(t)
	w.up()
	infra := w.machineOnHost("worker", "worker")
	w.server("worker", 2)
	w.quiet()
	w.applies("worker")
	w.isWell("worker")
	w.quiet()
	w.expectMachine("worker", rkev1.UpToDateReason)
	return w, infra
}

// The Node of an existing host, which keeps its own host name, gets the name of the instance. A
// server with its instance's name needs no argument.
func TestNodeName_ofAnExistingHost(t *testing.T) {
	w := newWorld(t)
	w.up()
	for name, hostname := range map[string]string{"own": "localhost", "named": "pool-named"} {
		infra := w.machineOnHost(name, "worker")
		infra.Object["status"] = map[string]any{"instanceName": "pool-" + name, "addresses": []any{
			map[string]any{"type": "ExternalIP", "address": "203.0.113.9"}, map[string]any{"type": "Hostname", "address": hostname}}}
		require.NoError(t, w.Status().Update(t.Context(), infra))
	}
	w.server("own", 2)
	w.server("named", 3)
	w.quiet()
	config := func(name string) string {
		for _, file := range w.planOf(name).Files {
			if strings.HasSuffix(file.Path, "/50-rancher.yaml") {
				content, err := base64.StdEncoding.DecodeString(file.Content)
				require.NoError(t, err)
				return string(content)
			}
		}
		return ""
	}
	require.Contains(t, config("own"), `"node-name": "pool-own"`)
	require.NotContains(t, config("named"), "node-name")
}

// A host that SSH does not reach gets one plan that cleans it, and nothing after that.
func TestCleanHosts(t *testing.T) {
	w, infra := withWorker(t)
	w.goes(infra)
	w.quiet()
	before := w.secret("worker-machine-plan").Data
	require.NotEmpty(t, w.planOf("worker").Probes, "nobody asked")

	w.asks(infra, "uid-1")
	w.quiet()
	w.expectCleaning("worker", "uid-1")
	require.NoError(t, plan.MayWrite(plan.Planner, before, w.secret("worker-machine-plan").Data))
	w.expectMachine("worker", rkev1.MachineDeletingReason)

	w.applies("worker")
	version := w.secret("worker-machine-plan").ResourceVersion
	w.quiet()
	require.Equal(t, version, w.secret("worker-machine-plan").ResourceVersion, "once")
	w.expect(rkev1.AvailableCondition, metav1.ConditionTrue, rkev1.APIAnswersReason)
}

// Who does not ask, or is not going, keeps its plan, whatever its infra machine says.
func TestCleanHosts_notAsked(t *testing.T) {
	for what, change := range map[string]func(*world, *unstructured.Unstructured){
		"a machine that stays": func(w *world, infra *unstructured.Unstructured) { w.asks(infra, "uid-1") },
		"only the infra machine goes": func(w *world, infra *unstructured.Unstructured) {
			w.asks(infra, "uid-1")
			require.NoError(w, w.Delete(w.Context(), infra))
		},
		"only the Machine goes": func(w *world, infra *unstructured.Unstructured) {
			w.asks(infra, "uid-1")
			require.NoError(w, w.Delete(w.Context(), w.machineNamed("worker")))
		},
		"it is another Machine's": func(w *world, infra *unstructured.Unstructured) {
			infra.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w.machineNamed("server"), clusterv1.GroupVersion.WithKind("Machine"))})
			w.asks(infra, "uid-1")
			w.goes(infra)
		},
		"what it says is no UID": func(w *world, infra *unstructured.Unstructured) {
			w.asks(infra, "../../../etc")
			w.goes(infra)
		},
		"the Cluster is paused": func(w *world, infra *unstructured.Unstructured) {
			w.cluster.Spec.Paused = new(true)
			require.NoError(w, w.Update(w.Context(), w.cluster))
			w.asks(infra, "uid-1")
			w.goes(infra)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, infra := withWorker(t)
			change(w, infra)
			w.quiet()
			require.NotEmpty(t, w.planOf("worker").Probes)
			require.NotContains(t, w.secret("worker-machine-plan").Annotations, rkev1.CleansAnnotation)
		})
	}
}

// An agent that never took up a plan is not told to clean: its journal would be one of that plan, and a k3s of before would be taken for ours.
func TestCleanHosts_hadNoPlan(t *testing.T) {
	w := newWorld(t)
	w.up()
	infra := w.machineOnHost("worker", "worker")
	w.asks(infra, "uid-1")
	w.server("worker", 2)
	w.quiet()
	require.NotNil(t, w.planOf("worker"), "it is pending")
	w.goes(infra)
	w.quiet()
	require.NotContains(t, w.secret("worker-machine-plan").Annotations, rkev1.CleansAnnotation)

	w.agent("worker", map[string]string{plan.KeyState: string(plan.StateInProgress)})
	w.quiet()
	w.expectCleaning("worker", "uid-1")
}

// The cluster's only server may go together with the Cluster and its control plane, whose Secrets may be gone. One that never came up leaves no cluster behind that
// would be taken for lost.
func TestCleanHosts_ofACluster(t *testing.T) {
	for what, change := range map[string]func(*world){
		"it is well":                 func(*world) {},
		"its Secrets are gone":       func(w *world) { require.NoError(w, w.Delete(w.Context(), w.secret("c1-ca"))) },
		"the control plane is going": func(w *world) { require.NoError(w, w.Delete(w.Context(), w.obj)) },
		"its Cluster is going": func(w *world) {
			w.cluster.Finalizers = []string{clusterv1.ClusterFinalizer}
			require.NoError(w, w.Update(w.Context(), w.cluster))
			require.NoError(w, w.Delete(w.Context(), w.cluster))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			infra := w.machineOnHost("server", "etcd", "control-plane", "worker")
			w.server("server", 1)
			w.quiet()
			w.agent("server", map[string]string{plan.KeyState: string(plan.StateInProgress)})
			w.quiet()
			w.goes(infra)
			w.quiet()
			w.asks(infra, "uid-1")
			change(w)
			w.quiet()
			w.expectCleaning("server", "uid-1")
			w.applies("server")
			w.quiet()
			require.Empty(t, w.secret("cp-rke-state").Data["bootstrapped"], "it made no cluster")
		})
	}
}

// A restore may bring a plan Secret back that was to clean, and a Machine that stays: that one has its own plan again.
func TestCleanHosts_restored(t *testing.T) {
	w, _ := withWorker(t)
	secret := w.secret("worker-machine-plan")
	raw, err := bootstrap.CleanPlan(bootstrap.NewClean("uid-1", bootstrap.MarkerRoot))
	require.NoError(t, err)
	secret.Data[plan.KeyPlan], secret.Annotations[rkev1.CleansAnnotation] = raw, "uid-1"
	require.NoError(t, w.Update(t.Context(), secret))
	w.quiet()
	require.NotEmpty(t, w.planOf("worker").Probes)
	require.NotContains(t, w.secret("worker-machine-plan").Annotations, rkev1.CleansAnnotation)
}
