package rkecontrolplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/rkecontrolplane/authorities"
	"github.com/drover-project/drover/limit"
	"github.com/drover-project/drover/testkit"
)

// A cluster from nothing to one server and one worker, with the agents' part played.
func TestReconcile(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason)
	for _, name := range []string{"c1-ca", "c1-cca", "c1-proxy", "c1-etcd", "c1-etcd-peer", "c1-sa"} {
		secret := w.secret(name)
		require.Equal(t, clusterv1.ClusterSecretType, secret.Type)
		require.Equal(t, "c1", secret.Labels[clusterv1.ClusterNameLabel])
		require.True(t, metav1.IsControlledBy(secret, w.obj), "so it moves and ends with the control plane")
	}
	state := w.secret("cp-rke-state")
	require.Equal(t, rkev1.ClusterStateSecretType, string(state.Type))

	w.machine("server", "etcd", "control-plane", "worker")
	w.machine("worker", "worker")
	w.quiet()
	w.expectMachine("server", rkev1.WaitingForServerReason)
	w.expectMachine("worker", rkev1.WaitingForServerReason)

	before := w.secret("server-machine-plan").Data
	w.server("server", 1)
	worker := w.machineNamed("worker")
	worker.Annotations = map[string]string{rkev1.InternalAddressAnnotation: "10.1.0.2"}
	require.NoError(t, w.Update(t.Context(), worker))
	w.server("worker", 2)
	w.reconcile()
	secret := w.secret("server-machine-plan")
	require.NoError(t, plan.MayWrite(plan.Planner, before, secret.Data))
	require.Equal(t, "true", secret.Labels[rkev1.InitNodeLabel])
	require.Equal(t, "-", secret.Annotations[rkev1.JoinedToAnnotation])
	require.Equal(t, "https://10.0.0.1:6443", secret.Annotations[rkev1.JoinURLAnnotation])
	require.Equal(t, string(w.secret("c1-ca").Data["tls.crt"]), file(t, w.planOf("server"), "/server/tls/server-ca.crt"))
	require.Contains(t, file(t, w.planOf("server"), "50-rancher.yaml"), string(state.Data["serverToken"]))
	w.expectMachine("server", rkev1.WaitingForServerReason) // what was written is told when it is seen
	w.quiet()
	require.Contains(t, w.expectMachine("server", rkev1.WaitingForAgentReason), "drover ssh server")
	w.expectMachine("worker", rkev1.WaitingForControlPlaneReason)
	w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason)
	w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.WaitingForControlPlaneReason)
	require.True(t, w.isGone("c1-kubeconfig"))

	w.applies("server")
	w.quiet()
	w.expectMachine("server", rkev1.WaitingForProbesReason)
	testkit.ExpectCondition(t, w.machineNamed("server"), rkev1.PlanAppliedCondition, metav1.ConditionTrue, rkev1.PlanAppliedReason)
	require.Equal(t, "id-server", string(w.secret("cp-rke-state").Data["bootstrapped"]), "a move takes it along")

	w.isWell("server")
	w.quiet()
	w.expectMachine("server", rkev1.UpToDateReason)
	message := w.expect(rkev1.AvailableCondition, metav1.ConditionUnknown, rkev1.WaitingForControlPlaneReason)
	require.Equal(t, "a control plane machine is ready, but https://203.0.113.1:6443 has not responded to the manager yet", message, "as in every start")
	require.Equal(t, time.Minute, testkit.ExpectReconciled(t, w.r, w.obj).RequeueAfter.Round(time.Minute))
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.quiet()
	require.Contains(t, w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason), "neither https://203.0.113.1:6443 nor")
	w.quiet()
	w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason)
	require.Nil(t, w.obj.Status.Initialization.ControlPlaneInitialized)
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(file(t, w.planOf("worker"), "50-rancher.yaml")), &config))
	require.Equal(t, "https://10.0.0.1:6443", config["server"])
	require.Equal(t, []any{"10.1.0.2"}, config["node-ip"], "what an annotation says takes the place of what the infra machine does")
	require.Equal(t, []any{"203.0.113.2"}, config["node-external-ip"], "of its own kind")
	require.Equal(t, "https://10.0.0.1:6443", w.secret("worker-machine-plan").Annotations[rkev1.JoinedToAnnotation])
	require.Equal(t, "https://203.0.113.1:6443", w.host())

	w.applies("worker")
	w.isWell("worker")
	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = true
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	w.expect(rkev1.AvailableCondition, metav1.ConditionTrue, rkev1.APIAnswersReason)
	require.True(t, *w.obj.Status.Initialization.ControlPlaneInitialized)
	require.EqualValues(t, 1, *w.obj.Status.Replicas, "control planes only")
	require.EqualValues(t, 1, *w.obj.Status.UpToDateReplicas)
	testkit.ExpectObserved(t, w.obj)

	versions, writes := w.versions(), len(w.writes)
	w.reconcile()
	require.Equal(t, versions, w.versions())
	require.Len(t, w.writes, writes, "nothing changed, nothing is written")
	t.Logf("%d writes for two machines: %s", len(w.writes), strings.Join(w.writes, ", "))

	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = false
	w.quiet()
	w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason)
	require.True(t, *w.obj.Status.Initialization.ControlPlaneInitialized, "it never goes back")
}

// A machine costs so many writes of ours, from its Machine to its Node Ready, and no more.
func TestReconcile_writesPerMachine(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.writes = nil
	const workers = 3
	names := []string{"w1", "w2", "w3"}
	for i, name := range names {
		w.machine(name, "worker")
		w.quiet()
		w.server(name, 10+i)
		w.quiet()
		w.applies(name)
		w.quiet()
		w.isWell(name)
		w.quiet()
		w.expectMachine(name, rkev1.UpToDateReason)
	}
	t.Logf("%d writes for %d workers", len(w.writes), workers)
	require.LessOrEqual(t, len(w.writes), 10*workers, "%v", w.writes)
}

// What an earlier manager wrote on a Machine is of a generation of the Machine's, which another Cluster API raises.
func TestReconcile_conditionsOfAnEarlierManager(t *testing.T) {
	w := newWorld(t)
	w.up()
	var stale []any
	for _, kind := range []string{rkev1.ReconciledCondition, rkev1.PlanAppliedCondition} {
		told := testkit.ExpectCondition(t, w.machineNamed("server"), kind, metav1.ConditionTrue, "")
		told.ObservedGeneration = 1
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&told)
		require.NoError(t, err)
		stale = append(stale, fields)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": stale}}}
	patch.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	patch.SetNamespace(w.obj.Namespace)
	patch.SetName("server")
	require.NoError(t, w.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner("drover-rkecontrolplane"), client.ForceOwnership))

	w.writes = nil
	w.quiet()
	require.Len(t, w.writes, 1)
	w.expectMachine("server", rkev1.UpToDateReason)
}

// A bad argument touches one machine, and taking it back overtakes the plan that fails.
func TestReconcile_badArgumentAndBack(t *testing.T) {
	w := newWorld(t)
	w.up()
	good := w.planOf("server")
	w.configure("null")
	w.quiet()
	require.Equal(t, good, w.planOf("server"), "it means the same")
	w.configure(`{"kubelet-arg":["no-such=1"]}`)
	w.quiet()
	w.agent("server", map[string]string{plan.KeyState: string(plan.StateInProgress), plan.KeyFailureCount: "1", plan.KeyFailedOutput: "canary-in-output",
		plan.KeyAgentStatus: `{"checksum":"` + plan.Checksum(w.secret("server-machine-plan").Data[plan.KeyPlan]) + `","attempt":1,"step":"instruction install","message":"it ended with exit code 1","output":"canary-in-output"}`})
	w.quiet()
	message := w.expectMachine("server", rkev1.RetryingPlanReason)
	require.Contains(t, message, "attempt 1 failed at instruction install: it ended with exit code 1\n* Read the agent's report: drover logs server")
	require.Contains(t, message, "kubectl edit rkecontrolplanes.rke.cattle.io cp -n", "which has another name than its Cluster")
	require.Equal(t, message, testkit.ExpectCondition(t, w.machineNamed("server"), rkev1.PlanAppliedCondition, metav1.ConditionUnknown, rkev1.RetryingPlanReason).Message)
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.RetryingPlanReason), "server: attempt 1 failed")
	require.NotContains(t, message+w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.RetryingPlanReason), "canary")
	require.NotEmpty(t, w.secret("c1-kubeconfig").Data["value"])

	w.configure("null")
	w.reconcile()
	require.Equal(t, string(plan.StatePending), string(w.secret("server-machine-plan").Data[plan.KeyState]))
	require.Equal(t, "canary-in-output", string(w.secret("server-machine-plan").Data[plan.KeyFailedOutput]), "the agent's own keys stay")
	w.obeys("server")
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}

// The agent writes between the look and the delivery: the plan is refused, and delivered to what is there then.
func TestReconcile_agentWritesMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.machine("server", "etcd", "control-plane", "worker")
	w.quiet()
	w.server("server", 1)
	meddled := false
	w.r = w.reconciler(testkit.Writes(w.WithWatch, func(write string, do func() error) error {
		if write == "patch *v1.Secret" && !meddled {
			meddled = true
			w.agent("server", map[string]string{plan.KeyAgentStatus: `{"version":"v1"}`})
		}
		return do()
	}))
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.Positive(t, result.RequeueAfter, "a conflict is no error")
	require.Nil(t, w.planOf("server"))
	w.read()
	w.expect(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.WaitingForMachinesReason)
	w.reconcile()
	require.NotNil(t, w.planOf("server"))
	require.JSONEq(t, `{"version":"v1"}`, string(w.secret("server-machine-plan").Data[plan.KeyAgentStatus]))
}

// A crash after each write leaves the authorities, tokens and plan that were made first.
func TestReconcile_interrupted(t *testing.T) {
	for n := 1; ; n++ {
		w, count := newWorld(t), 0
		w.provisioned("server", 1, "etcd", "control-plane", "worker")
		broken := w.reconciler(testkit.Writes(w.WithWatch, func(_ string, do func() error) error {
			if count++; count > n {
				return errors.New("the manager is dead")
			}
			return errors.Join(do(), map[bool]error{true: errors.New("the answer is lost")}[count == n])
		}))
		_, err := broken.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
		made := &corev1.SecretList{}
		require.NoError(t, w.List(t.Context(), made, client.InNamespace(w.obj.Namespace)))
		w.quiet()
		for _, secret := range made.Items {
			if secret.Type != plan.SecretType {
				require.Equal(t, secret.Data, w.secret(secret.Name).Data, "write %d: %s is made once", n, secret.Name)
			}
		}
		require.Equal(t, string(w.secret("c1-cca").Data["tls.key"]), file(t, w.planOf("server"), "/server/tls/client-ca.key"))
		if err == nil {
			require.Greater(t, n, 8, "tokens, six authorities, the plan, the status")
			return
		}
	}
}

func TestReconcile_paused(t *testing.T) {
	w := newWorld(t)
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.cluster.Spec.Paused = new(true)
	require.NoError(t, w.Update(t.Context(), w.cluster))
	w.quiet()
	w.expect(rkev1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	require.Nil(t, w.planOf("server"))
	require.True(t, w.isGone("c1-ca"))
	w.cluster.Spec.Paused = new(false)
	require.NoError(t, w.Update(t.Context(), w.cluster))
	w.quiet()
	w.expect(rkev1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
	require.NotNil(t, w.planOf("server"))
}

// The kubeconfig names a server that is up, or what the user gave, and its certificate is renewed in time.
func TestKubeconfig(t *testing.T) {
	w := newWorld(t)
	w.up()
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.InDelta(t, 182*24*time.Hour, result.RequeueAfter, float64(48*time.Hour), "it comes again by itself")
	secret := w.secret("c1-kubeconfig")
	require.Equal(t, clusterv1.ClusterSecretType, secret.Type)
	before := secret.Data
	delete(secret.Labels, clusterv1.ClusterNameLabel)
	require.NoError(t, w.Update(t.Context(), secret))
	w.quiet()
	require.Equal(t, "c1", w.secret("c1-kubeconfig").Labels[clusterv1.ClusterNameLabel], "somebody took it away")
	w.clock.SetTime(w.clock.Now().AddDate(0, 5, 0))
	w.quiet()
	require.Equal(t, before, w.secret("c1-kubeconfig").Data)
	w.clock.SetTime(w.clock.Now().AddDate(0, 2, 0))
	w.quiet()
	require.NotEqual(t, before, w.secret("c1-kubeconfig").Data, "half of its time is over")
	require.Equal(t, "https://203.0.113.1:6443", w.host())

	machine := w.machineNamed("server")
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.7"}}
	require.NoError(t, w.Status().Update(t.Context(), machine))
	w.quiet()
	require.Equal(t, "https://203.0.113.1:6443", w.host(), "it is not up at its new address yet")
	w.obeys("server")
	require.Equal(t, "https://10.0.0.7:6443", w.host())

	infrastructure := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1"}}
	infrastructure.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.org", Port: 443}
	require.NoError(t, w.Create(t.Context(), infrastructure))
	w.quiet()
	require.Equal(t, "https://api.example.org:443", w.host())
	require.Contains(t, file(t, w.planOf("server"), "50-rancher.yaml"), "api.example.org", "among the names of its certificate")

	w.obeys("server")
	secret = w.secret("c1-kubeconfig")
	secret.Data["value"] = []byte("rubbish")
	require.NoError(t, w.Update(t.Context(), secret))
	w.quiet()
	require.Equal(t, "https://api.example.org:443", w.host(), "somebody meddled with it")
	require.NoError(t, w.Delete(t.Context(), secret))
	w.quiet()
	require.Equal(t, "https://api.example.org:443", w.host())

	secret = w.secret("c1-kubeconfig")
	require.NoError(t, w.Delete(t.Context(), secret))
	secret.ResourceVersion, secret.UID, secret.OwnerReferences = "", "", nil
	require.NoError(t, w.Create(t.Context(), secret))
	w.quiet()
	require.True(t, metav1.IsControlledBy(w.secret("c1-kubeconfig"), w.obj), "ours, from a backup")

	require.NoError(t, w.Delete(t.Context(), w.secret("c1-kubeconfig")))
	require.NoError(t, w.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1-kubeconfig"}, Data: map[string][]byte{"value": []byte("mine")}}))
	w.quiet()
	require.Equal(t, "mine", string(w.secret("c1-kubeconfig").Data["value"]), "the user's own is left alone")
}

// The kubeconfig names the address of the server at which its API answers the manager, the external one first; it stays with that while the cluster is reached.
func TestKubeconfig_addressThatAnswers(t *testing.T) {
	w := newWorld(t)
	var asked []string
	answers := map[string]bool{"10.0.0.1:6443": true}
	w.r.Answers = func(_ context.Context, address string, authority []byte) bool {
		require.Equal(t, w.secret("c1-ca").Data["tls.crt"], authority)
		asked = append(asked, address)
		return answers[address]
	}
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.quiet()
	w.obeys("server")
	require.Equal(t, "https://10.0.0.1:6443", w.host())
	require.Equal(t, []string{"203.0.113.1:6443", "10.0.0.1:6443", "203.0.113.1:6443"}, asked[:3])
	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = true
	w.quiet()
	asked = nil
	w.quiet()
	require.Empty(t, asked, "it is reached")

	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = false
	answers = map[string]bool{}
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.LessOrEqual(t, result.RequeueAfter, time.Minute)
	require.Equal(t, "https://10.0.0.1:6443", w.host(), "nothing better is known")
	answers = map[string]bool{"203.0.113.1:6443": true}
	w.quiet()
	require.Equal(t, "https://203.0.113.1:6443", w.host())

	w.reached.answer[client.ObjectKeyFromObject(w.cluster)], w.reached.through = true, "10.0.0.1:6443"
	answers = map[string]bool{"10.0.0.1:6443": true}
	w.quiet()
	require.Equal(t, "https://10.0.0.1:6443", w.host(), "the manager found it as soon as the other one did not answer")
	w.reached.answer[client.ObjectKeyFromObject(w.cluster)], w.reached.through = false, ""
	answers = map[string]bool{"203.0.113.1:6443": true}
	w.quiet()

	asked, answers = nil, map[string]bool{}
	w.r.Answers = func(_ context.Context, address string, _ []byte) bool {
		asked = append(asked, address)
		return len(asked) > 1
	}
	w.reconcile()
	require.Equal(t, "https://203.0.113.1:6443", w.host(), "the server came back while its addresses were asked")
}

// An endpoint of the user's that does not answer keeps the manager from nothing while a server does; both are told, and the tunnel where neither answers.
func TestAccess_endpointThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	infrastructure := &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1"}}
	infrastructure.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.org", Port: 443}
	require.NoError(t, w.Create(t.Context(), infrastructure))
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.quiet()
	w.obeys("server")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.quiet()
	message := w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason)
	require.Contains(t, message, "neither https://api.example.org:443 nor a server of the control plane responds to the manager. Drover has no tunnel yet")
	w.reached.unread = "the API server's response is rejected: too many fields"
	w.quiet()
	require.Contains(t, w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason), "the manager cannot use the API at https://api.example.org:443: the API server's response is rejected: too many fields. The cluster may be compromised")
	w.reached.unread = ""
	w.reached.proxied = true
	w.quiet()
	message = w.expect(rkev1.AvailableCondition, metav1.ConditionFalse, rkev1.APINotReachedReason)
	require.Contains(t, message, "https://api.example.org:443 does not respond through the manager's proxy, and the manager called no server of the control plane")
	w.reached.proxied = false

	w.reached.answer[client.ObjectKeyFromObject(w.cluster)], w.reached.through = true, "203.0.113.1:6443"
	w.quiet()
	require.True(t, *w.obj.Status.Initialization.ControlPlaneInitialized)
	says := "the endpoint api.example.org does not respond to the manager, but the server at 203.0.113.1:6443 does"
	require.Contains(t, w.expect(rkev1.AvailableCondition, metav1.ConditionTrue, rkev1.APIAnswersReason), says)
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason), says)
	require.Equal(t, "https://api.example.org:443", w.host(), "it is what the user wants")
	w.reached.through = ""
	w.quiet()
	require.Empty(t, w.expect(rkev1.AvailableCondition, metav1.ConditionTrue, rkev1.APIAnswersReason))
	testkit.ExpectNoCondition(t, w.obj, rkev1.WarningsCondition)
}

// What happens to a cluster and to plans is told by events, once each, and nothing of waiting.
func TestEvents(t *testing.T) {
	w := newWorld(t)
	recorder := events.NewFakeRecorder(100)
	w.r.Recorder = recorder
	told := func() (all []string) {
		for len(recorder.Events) > 0 {
			all = append(all, <-recorder.Events)
		}
		return all
	}
	early := w.machine("early", "worker")
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.NoEtcdMachineReason)
	require.Empty(t, told(), "a new cluster's server may be made after its worker, which is no fault")
	require.NoError(t, w.Delete(t.Context(), early))
	w.up()
	all := strings.Join(told(), "\n")
	for _, once := range []string{"Normal PlanApplied", "Normal AllReconciled", "Normal APIAnswers"} {
		require.Equal(t, 1, strings.Count(all, once), "%s in %s", once, all)
	}
	require.NotContains(t, all, "Waiting")
	require.NotContains(t, all, "NotReached", "it answers a moment later")
	w.quiet()
	require.Empty(t, told())
	w.configure(`{"kubelet-arg":["no-such=1"]}`)
	w.quiet()
	status := func(attempt string) string {
		return `{"checksum":"` + plan.Checksum(w.secret("server-machine-plan").Data[plan.KeyPlan]) + `","attempt":` + attempt + `,"step":"instruction install","message":"exit code 1"}`
	}
	w.agent("server", map[string]string{plan.KeyState: string(plan.StateInProgress), plan.KeyAgentStatus: status("1")})
	w.quiet()
	w.agent("server", map[string]string{plan.KeyAgentStatus: status("2")})
	w.quiet()
	all = strings.Join(told(), "\n")
	require.Equal(t, 2, strings.Count(all, "Warning RetryingPlan"), "of the machine and of the cluster: %s", all)

	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = false
	w.quiet()
	require.Equal(t, 1, strings.Count(strings.Join(told(), "\n"), "Warning APINotReached"))
}

// What the user gave, and has no owner with which it would move, is labelled so that clusterctl takes it along; what is ours moves with the control plane.
func TestMoveLabel(t *testing.T) {
	w := newWorld(t)
	data, err := authorities.New("c1", authorities.EtcdPeer, w.clock.Now())
	require.NoError(t, err)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name} }
	for _, obj := range []client.Object{
		&corev1.Secret{ObjectMeta: meta("c1-etcd-peer"), Data: data},
		&corev1.Secret{ObjectMeta: meta("pull"), Type: corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "u", "password": "p"}},
		&corev1.ConfigMap{ObjectMeta: meta("files"), Data: map[string]string{"k": "v"}},
		&corev1.Secret{ObjectMeta: meta("unrelated")},
	} {
		require.NoError(t, w.Create(t.Context(), obj))
	}
	w.change(func(o *rkev1.RKEControlPlane) {
		o.Spec.Registries = &rkev1.Registry{Configs: map[string]rkev1.RegistryConfig{"registry.example.com": {AuthConfigSecretName: "pull"}}}
		o.Spec.MachineSelectorFiles = []rkev1.RKEProvisioningFiles{{FileSources: []rkev1.ProvisioningFileSource{{ConfigMap: rkev1.K8sObjectFileSource{Name: "files"}}}}}
	})
	w.quiet()
	require.Contains(t, w.secret("c1-etcd-peer").Labels, rkev1.MoveLabel)
	require.Contains(t, w.secret("pull").Labels, rkev1.MoveLabel)
	require.Contains(t, testkit.ExpectExists(t, w.WithWatch, &corev1.ConfigMap{ObjectMeta: meta("files")}).Labels, rkev1.MoveLabel)
	require.NotContains(t, w.secret("unrelated").Labels, rkev1.MoveLabel)
	for _, name := range []string{"c1-ca", "cp-rke-state"} {
		require.NotContains(t, w.secret(name).Labels, rkev1.MoveLabel)
		require.True(t, metav1.IsControlledBy(w.secret(name), w.obj))
	}
}

// An authority of the user's that ends within the hour has the kubeconfig written once.
func TestKubeconfig_authorityEnds(t *testing.T) {
	w := newWorld(t)
	data, err := authorities.New("c1", authorities.Client, w.clock.Now().Add(30*time.Minute-10*365*24*time.Hour))
	require.NoError(t, err)
	require.NoError(t, w.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "c1-cca"}, Data: data}))
	w.up()
	require.NotEmpty(t, w.secret("c1-kubeconfig").Data["value"])
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.AuthorityInvalidReason), "expired at")
}

// An agent that renews its access no more is silent, unless no manager ran to renew it; one that calls again is not.
func TestReconcile_agentSilent(t *testing.T) {
	w := newWorld(t)
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.quiet()
	w.applies("server")
	w.isWell("server")
	seen := func(at time.Time) {
		secret := w.secret(plan.SecretName("server"))
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, rkev1.AgentSeenAnnotation, at.Format(time.RFC3339))
		require.NoError(t, w.Update(t.Context(), secret))
	}
	seen(w.clock.Now())
	w.quiet()
	w.expect(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason)
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.Positive(t, result.RequeueAfter, "nothing else wakes for it")
	require.LessOrEqual(t, result.RequeueAfter, 7*time.Hour)
	w.clock.SetTime(w.clock.Now().Add(7 * time.Hour))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.AgentSilentReason), "has not called the manager since")
	w.r = w.reconciler(w.WithWatch) // a manager that starts
	w.quiet()
	w.expect(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.quiet()
	w.expect(rkev1.ReconciledCondition, metav1.ConditionFalse, rkev1.AgentSilentReason)
	seen(w.clock.Now())
	w.quiet()
	w.expect(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason)
}

// A distribution that does not start, which k3s' installer does not see of an agent, is waited for, and after minutes told of.
func TestReconcile_probesFailing(t *testing.T) {
	w := newWorld(t)
	recorder := events.NewFakeRecorder(100)
	w.r.Recorder = recorder
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.quiet()
	w.applies("server")
	w.quiet()
	w.expectMachine("server", rkev1.WaitingForProbesReason)
	for len(recorder.Events) > 0 {
		require.NotContains(t, <-recorder.Events, "not healthy", "every machine passes that")
	}
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.Positive(t, result.RequeueAfter, "nothing else wakes for it")
	require.LessOrEqual(t, result.RequeueAfter, 5*time.Minute)
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.quiet()
	require.Contains(t, w.expectMachine("server", rkev1.ProbesFailingReason), "journalctl")
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ProbesFailingReason), "for more than 5 minutes: not healthy yet: kube-apiserver")
	require.Contains(t, <-recorder.Events, "Warning ProbesFailing")
	testkit.ExpectCondition(t, w.machineNamed("server"), rkev1.PlanAppliedCondition, metav1.ConditionTrue, rkev1.PlanAppliedReason)

	w.isWell("server")
	w.quiet()
	w.expectMachine("server", rkev1.UpToDateReason)
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.agent("server", map[string]string{plan.KeyProbeStatuses: "{}"})
	w.quiet()
	w.expectMachine("server", rkev1.WaitingForProbesReason)
	w.clock.SetTime(w.clock.Now().Add(5 * time.Minute))
	w.quiet()
	w.expectMachine("server", rkev1.ProbesFailingReason)
}

// Who checks health does not replace the only server, nor a worker that restarts because it was told to, for as long as that may take.
func TestSkipRemediation(t *testing.T) {
	w := newWorld(t)
	skips := func(name string) bool {
		_, has := w.machineNamed(name).Annotations[clusterv1.MachineSkipRemediationAnnotation]
		return has
	}
	w.provisioned("server", 1, "etcd", "control-plane")
	w.quiet()
	require.True(t, skips("server"), "it is at its first plan")
	w.obeys("server")
	require.True(t, skips("server"))

	w.provisioned("worker", 2, "worker")
	w.quiet()
	require.True(t, skips("worker"), "the first plan has as much time as any")
	w.clock.SetTime(w.clock.Now().Add(29 * time.Minute))
	w.quiet()
	require.True(t, skips("worker"), "a slow installation")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.quiet()
	require.False(t, skips("worker"), "one that never becomes a Node has to be replaced")
	w.applies("worker")
	w.quiet()
	require.True(t, skips("worker"), "its kubelet is about to register the Node")
	w.clock.SetTime(w.clock.Now().Add(6 * time.Minute))
	w.quiet()
	require.False(t, skips("worker"), "its kubelet never registered")
	w.isWell("worker")
	machine := w.machineNamed("worker")
	machine.Status.NodeRef.Name = "worker"
	require.NoError(t, w.Status().Update(t.Context(), machine))
	w.quiet()
	change := func(generation int64) {
		w.change(func(o *rkev1.RKEControlPlane) { o.Spec.ProvisionGeneration = generation })
		w.quiet()
		w.obeys("server")
	}
	change(1)
	require.True(t, skips("worker"))
	w.obeys("worker")
	require.False(t, skips("worker"))
	w.agent("worker", map[string]string{plan.KeyProbeStatuses: `{"kubelet":{"healthy":false}}`})
	w.quiet()
	require.False(t, skips("worker"), "it was told nothing, and its kubelet is dead")
	w.isWell("worker")

	change(2)
	require.True(t, skips("worker"))
	result := testkit.ExpectReconciled(t, w.r, w.obj)
	require.LessOrEqual(t, result.RequeueAfter, 30*time.Minute)
	w.clock.SetTime(w.clock.Now().Add(31 * time.Minute))
	w.quiet()
	require.False(t, skips("worker"), "it has had its time")
	w.obeys("worker")

	// It has its time also from a control plane that cannot judge it, and no more: because of the version, and because a Secret is gone.
	version, lost := w.obj.Spec.KubernetesVersion, (*corev1.Secret)(nil)
	for i, fault := range []struct{ comes, goes func() }{
		{func() { w.change(func(o *rkev1.RKEControlPlane) { o.Spec.KubernetesVersion = "v1.99.0+k3s1" }) },
			func() { w.change(func(o *rkev1.RKEControlPlane) { o.Spec.KubernetesVersion = version }) }},
		{func() {
			lost = w.secret("cp-rke-state")
			require.NoError(t, w.Delete(t.Context(), lost))
		}, func() {
			lost.ResourceVersion, lost.UID = "", ""
			require.NoError(t, w.Create(t.Context(), lost))
		}},
	} {
		fault.comes() // while it is well
		w.quiet()
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		fault.goes()
		w.quiet()
		change(int64(3 + i))
		require.True(t, skips("worker"))
		fault.comes()
		w.quiet()
		require.True(t, skips("worker"))
		require.Positive(t, testkit.ExpectReconciled(t, w.r, w.obj).RequeueAfter)
		w.clock.SetTime(w.clock.Now().Add(31 * time.Minute))
		w.quiet()
		require.False(t, skips("worker"))
		require.True(t, skips("server"), "it still has all data")
		fault.goes()
		w.quiet()
		require.False(t, skips("worker"), "and no more")
		w.obeys("worker")
	}
	change(5)

	machine = w.machineNamed("worker")
	machine.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
	require.NoError(t, w.Update(t.Context(), machine))
	w.obeys("worker")
	require.True(t, skips("worker"), "the user's own stays")
}

// After a move, with new UIDs and without any status, no plan is another and nothing is forgotten.
func TestReconcile_moved(t *testing.T) {
	w := newWorld(t)
	w.up()
	w.provisioned("worker", 2, "worker")
	w.quiet()
	w.obeys("worker")
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	source, target := w.obj.Namespace, newWorld(t)
	target.WithWatch = w.WithWatch
	require.NoError(t, target.Delete(t.Context(), target.obj))
	target.obj = nil
	uids := map[string]client.Object{"Cluster c1": target.cluster}
	carry := func(kind string, obj client.Object) {
		obj.SetNamespace(target.cluster.Namespace)
		obj.SetUID("")
		obj.SetResourceVersion("")
		refs := obj.GetOwnerReferences()
		for i := range refs {
			refs[i].UID = uids[refs[i].Kind+" "+refs[i].Name].GetUID()
		}
		obj.SetOwnerReferences(refs)
		require.NoError(t, target.Create(t.Context(), obj))
		uids[kind+" "+obj.GetName()] = obj
	}
	target.obj = w.obj
	carry("RKEControlPlane", target.obj)
	machines, bootstraps, secrets := &clusterv1.MachineList{}, &rkev1.RKEBootstrapList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{machines, bootstraps, secrets} {
		require.NoError(t, w.List(t.Context(), list, client.InNamespace(source)))
	}
	for i := range machines.Items {
		carry("Machine", &machines.Items[i])
	}
	for i := range bootstraps.Items {
		carry("RKEBootstrap", &bootstraps.Items[i])
	}
	data := map[string]map[string][]byte{}
	for i := range secrets.Items {
		data[secrets.Items[i].Name] = secrets.Items[i].Data
		carry("Secret", &secrets.Items[i])
	}
	unchanged := func() {
		target.quiet()
		for name, before := range data {
			require.Equal(t, before, target.secret(name).Data, name)
		}
	}
	unchanged()
	target.expectMachine("server", rkev1.WaitingForServerReason) // its addresses are not known again yet
	target.server("server", 1)
	unchanged()
	target.server("worker", 2)
	target.reached.answer[client.ObjectKeyFromObject(target.cluster)] = true
	unchanged()
	target.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
	require.True(t, *target.obj.Status.Initialization.ControlPlaneInitialized)
}

// Roles, and labels that were edited later, are the manager's to set; a kubelet sets what it may when it registers.
func TestNodeLabels(t *testing.T) {
	w := newWorld(t)
	w.up()
	require.Empty(t, w.reached.labels, "it is no Node yet")
	machine := w.machineNamed("server")
	machine.Annotations = map[string]string{rkev1.NodeLabelsAnnotation: `{"team":"shop","node-role.kubernetes.io/web":""}`,
		rkev1.NodeTaintsAnnotation: `[{"key":"gpu","effect":"NoSchedule"}]`}
	require.NoError(t, w.Update(t.Context(), machine))
	machine.Status.NodeRef.Name = "node-1"
	require.NoError(t, w.Status().Update(t.Context(), machine))
	w.quiet()
	require.Equal(t, map[string]string{"team": "shop", "node-role.kubernetes.io/web": "", "node-role.kubernetes.io/etcd": "true",
		"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/worker": "true"}, w.reached.labels["node-1"])
	taints := []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	require.Equal(t, taints, w.reached.taints["node-1"])

	// Its roles change: it is kept free of workloads, and is not any more.
	for _, tt := range []struct {
		worker string
		taints []corev1.Taint
	}{
		{"", append(slices.Clone(taints), corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})},
		{"true", taints},
	} {
		machine = w.machineNamed("server")
		machine.Labels[rkev1.WorkerRoleLabel] = tt.worker
		require.NoError(t, w.Update(t.Context(), machine))
		w.quiet()
		require.Equal(t, tt.taints, w.reached.taints["node-1"])
	}

	// While it asks for what a Node cannot have, the Node keeps what it has.
	machine = w.machineNamed("server")
	machine.Annotations[rkev1.NodeTaintsAnnotation] = `[{"key":"none","effect":"Sometimes"}]`
	require.NoError(t, w.Update(t.Context(), machine))
	w.quiet()
	w.expectMachine("server", rkev1.MachineInvalidReason)
	require.Equal(t, taints, w.reached.taints["node-1"])
}

// A label of the argument node-label reaches a Node that is registered, and is removed with it. The
// annotation of the Machine takes precedence, as at the registration.
func TestNodeLabels_configured(t *testing.T) {
	w := newWorld(t)
	w.up()
	machine := w.machineNamed("server")
	machine.Annotations = map[string]string{rkev1.NodeLabelsAnnotation: `{"team":"shop"}`}
	require.NoError(t, w.Update(t.Context(), machine))
	machine.Status.NodeRef.Name = "node-1"
	require.NoError(t, w.Status().Update(t.Context(), machine))
	w.configure(`{"node-label":["tier=front","team=other"],"node-label+":"zone=a,rack=7"}`)
	w.quiet()
	require.Equal(t, map[string]string{"team": "shop", "tier": "front", "zone": "a", "rack": "7", "node-role.kubernetes.io/etcd": "true",
		"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/worker": "true"}, w.reached.labels["node-1"])
	w.configure(`{"node-label":["tier=back"],"node-label+":null}`)
	w.quiet()
	require.Equal(t, "back", w.reached.labels["node-1"]["tier"])
	require.NotContains(t, w.reached.labels["node-1"], "zone")
}

// A Node that is refused its labels is told of, and the others get theirs.
func TestNodeLabels_refused(t *testing.T) {
	w := newWorld(t)
	w.up()
	for i, name := range []string{"a", "b"} {
		w.provisioned(name, 2+i, "worker")
		machine := w.machineNamed(name)
		machine.Status.NodeRef.Name = name
		require.NoError(t, w.Status().Update(t.Context(), machine))
	}
	look := func(err error) error {
		w.reached.refused, w.reached.labels = map[string]error{"a": err}, map[string]map[string]string{}
		_, err = w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
		w.read()
		return err
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	require.ErrorContains(t, look(apierrors.NewForbidden(nodes, "a", errors.New(strings.Repeat("never ", 1000)))), "is forbidden")
	require.Contains(t, w.reached.labels, "b")
	told := w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason)
	require.Contains(t, told, `nodes "a" is forbidden: never`)
	require.Less(t, len(told), 1000)
	require.NoError(t, look(apierrors.NewConflict(nodes, "a", errors.New("changed"))))
	require.Contains(t, w.reached.labels, "b")
	testkit.ExpectNoCondition(t, w.obj, rkev1.WarningsCondition)
	require.Error(t, look(context.DeadlineExceeded))
	require.Empty(t, w.reached.labels, "nobody answers")
}

// A Cluster that is being deleted loses its machines, its API and its Secrets, which alarms nobody.
func TestReconcile_clusterDeleted(t *testing.T) {
	for what, lose := range map[string]func(*world){
		"its data":       func(*world) {},
		"an authority":   func(w *world) { require.NoError(w, w.Delete(w.Context(), w.secret("c1-ca"))) },
		"all its tokens": func(w *world) { require.NoError(w, w.Delete(w.Context(), w.secret("cp-rke-state"))) },
		"its control plane": func(w *world) {
			require.NoError(w, w.Delete(w.Context(), w.obj))
			w.reconcile()
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.Finalizers = []string{clusterv1.ClusterFinalizer}
			require.NoError(t, w.Update(t.Context(), w.cluster))
			w.up()
			w.machine("worker", "worker")
			w.quiet()
			recorder := events.NewFakeRecorder(100)
			w.r.Recorder = recorder
			require.NoError(t, w.Delete(t.Context(), w.cluster))
			w.quiet()
			w.expect(rkev1.AvailableCondition, metav1.ConditionTrue, rkev1.APIAnswersReason)
			require.NoError(t, w.Delete(t.Context(), w.machineNamed("server")))
			w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = false
			w.quiet()
			require.Contains(t, w.expect(rkev1.AvailableCondition, metav1.ConditionUnknown, rkev1.APINotReachedReason), "neither the address in Secret c1-kubeconfig nor")
			lose(w)
			w.quiet()
			require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.DeletingReason), "the Cluster c1 is being deleted. Its Machines are deleted first, and 1 of them are left")
			require.Zero(t, *w.obj.Status.Replicas)
			require.Empty(t, recorder.Events)
		})
	}
}

// A machine's new server gets its plan when the Node of the earlier one is gone, which is deleted as soon as no kubelet reports it: the new kubelet would take it over. Those
// of other Machines, and without a provider ID, stay; one of no Machine is told of.
func TestForgetNodes(t *testing.T) {
	w := newWorld(t)
	w.up()
	node := func(name, machine, id string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rkev1.NodeMachineLabel: machine}}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	w.reached.nodes = []corev1.Node{node("server", "id-server", "acme://1"), node("worker", "id-worker", "acme://20"), node("another", "id-worker", "acme://1"),
		node("bare", "id-worker", ""), node("theirs", "", "acme://30")}
	w.machine("worker", "worker")
	w.quiet()
	w.expectMachine("worker", rkev1.WaitingForServerReason)
	w.server("worker", 23)
	w.quiet()
	told := w.expectMachine("worker", rkev1.NodeOfEarlierServerReason)
	require.Contains(t, told, `Node worker names this machine, but the Node has the immutable provider ID "acme://20" of an earlier server`)
	require.Contains(t, told, "kubectl --kubeconfig c1.yaml delete node worker\n* Then restart the kubelet")
	require.Nil(t, w.planOf("worker"))
	require.Len(t, w.reached.nodes, 5)

	w.reached.silent = []string{"server", "worker", "another", "bare", "theirs"}
	w.quiet()
	require.NotNil(t, w.planOf("worker"))
	require.Len(t, w.reached.nodes, 4)
	testkit.ExpectNoCondition(t, w.obj, rkev1.WarningsCondition)

	w.reached.nodes = append(w.reached.nodes, node("left", "id-gone", "acme://20"))
	w.quiet()
	require.Contains(t, w.expect(rkev1.WarningsCondition, metav1.ConditionTrue, rkev1.WarningsReason),
		"(1): left\n* Delete the Node if its server is gone or now belongs to another Machine. In the second case, restart the kubelet afterwards: drover kubeconfig c1 -n "+w.obj.Namespace+" --file c1.yaml && kubectl --kubeconfig c1.yaml delete node left")
	require.Len(t, w.reached.nodes, 5)
}

// With a control plane go the authorities of its cluster, so it stays for as long as there are servers, and says so.
func TestReconcile_deletedBeforeItsMachines(t *testing.T) {
	w := newWorld(t)
	w.machine("server", "etcd", "control-plane")
	// Another Cluster that names it, and has none, is no reason to let it go.
	another := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: "another"}, Spec: *w.cluster.Spec.DeepCopy()}
	require.NoError(t, w.Create(t.Context(), another))
	ofAnother := func(name string, data *string) {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "another"}}}
		machine.Spec = clusterv1.MachineSpec{ClusterName: "another", Bootstrap: clusterv1.Bootstrap{DataSecretName: data, ConfigRef: w.machineNamed("server").Spec.Bootstrap.ConfigRef},
			InfrastructureRef: w.machineNamed("server").Spec.InfrastructureRef}
		require.NoError(t, w.Create(t.Context(), machine))
	}
	ofAnother("held", nil) // it never gets a server
	w.quiet()
	require.NoError(t, w.Delete(t.Context(), w.obj))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.MachinesExistReason), "it is kept for the Machines of Cluster c1 (1 left)")
	require.Zero(t, testkit.ExpectReconciled(t, w.r, w.obj).RequeueAfter)

	w.cluster.Spec.ControlPlaneRef.Name = "typo"
	require.NoError(t, w.Update(t.Context(), w.cluster))
	require.Positive(t, testkit.ExpectReconciled(t, w.r, w.obj).RequeueAfter, "its Cluster's Machines wake another")
	w.read()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.MachinesExistReason), "it is kept for the Machines of Cluster c1 (1 left)")

	ofAnother("joined", new("data")) // it got one when its Cluster was the owner
	require.NoError(t, w.Delete(t.Context(), w.machineNamed("server")))
	w.quiet()
	require.Contains(t, w.expect(rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.MachinesExistReason), "it is kept for the Machines of Cluster another (1 left)")

	require.NoError(t, w.Delete(t.Context(), w.machineNamed("joined")))
	testkit.ExpectReconciled(t, w.r, w.obj)
	testkit.ExpectNotFound(t, w, w.obj)
}

// A control plane waits until the memory that its plan needs is free.
func TestReconcile_memory(t *testing.T) {
	w := newWorld(t)
	memory := limit.NewBytes(1 << 20)
	done, err := memory.Acquire(t.Context(), 1<<20)
	require.NoError(t, err)
	w.r.Memory = memory
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = w.r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
	require.ErrorContains(t, err, "of the memory budget")
	done()
	w.reconcile()
	require.NotEmpty(t, w.obj.Status.Conditions)
	free, err := memory.Acquire(t.Context(), 1<<20) // Reconcile released all of it
	require.NoError(t, err)
	free()
}

// TestRetryOfAFailedPlan: an agent that is not ours gives up a plan and reports no cause. The annotation that drover retry sets
// delivers the plan again, once, and keeps the output that the agent saved.
func TestRetryOfAFailedPlan(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	infra := w.machineOnHost("server", "etcd", "control-plane", "worker")
	w.server("server", 1)
	w.quiet()
	raw := w.secret("server-machine-plan").Data[plan.KeyPlan]
	require.NotEmpty(t, raw)
	givesUp := func() {
		w.agent("server", map[string]string{plan.KeyState: string(plan.StateInProgress)})
		w.agent("server", map[string]string{plan.KeyState: string(plan.StateFailed), plan.KeyFailedChecksum: plan.Checksum(raw), plan.KeyFailedOutput: "zipped"})
		w.quiet()
		require.Contains(t, w.expectMachine("server", rkev1.PlanFailedReason), "its agent gave up the plan: it reported no cause; drover logs --agent shows the output")
	}
	retry := func(value string) {
		require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
		infra.SetAnnotations(map[string]string{rkev1.RetryAnnotation: value})
		require.NoError(t, w.Update(t.Context(), infra))
		w.quiet()
	}
	again := func(state plan.State) {
		secret := w.secret("server-machine-plan")
		require.Equal(t, string(state), string(secret.Data[plan.KeyState]))
		require.Equal(t, string(raw), string(secret.Data[plan.KeyPlan]))
		require.Equal(t, "zipped", string(secret.Data[plan.KeyFailedOutput]))
	}
	givesUp()
	again(plan.StateFailed)
	retry("2026-11-28T06:00:00Z")
	again(plan.StatePending)
	w.expectMachine("server", rkev1.WaitingForAgentReason)
	givesUp()
	again(plan.StateFailed)
	retry(strings.Repeat("x", 100_000))
	again(plan.StatePending)
	require.Less(t, len(w.secret("server-machine-plan").Annotations[rkev1.PlanRetriedAnnotation]), 64)
	w.obeys("server")
	retry("2026-11-28T07:00:00Z")
	again(plan.StateSucceeded)
}
