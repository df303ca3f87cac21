package command_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/controllers/provisioningcluster"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/golden"
)

// broken is Cluster store with a pool server and a pool worker of one machine each. The controller
// of Clusters reconciles it; the tests write the status of the objects of other controllers.
type broken struct {
	*cluster

	store *provv1.Cluster
	r     *provisioningcluster.Reconciler
}

// newBroken creates the Configs and the Cluster.
func newBroken(t *testing.T, change func(*provv1.Cluster)) *broken {
	t.Helper()
	w := &broken{cluster: newCluster(t)}
	all := ourScheme(t)
	require.NoError(t, v3.AddToScheme(all))
	w.Client = testkit.Client(t, all)
	w.r = provisioningcluster.New(provisioningcluster.Options{Client: w.Client, Reader: w.Client})
	pool := func(name string) provv1.MachinePool {
		return provv1.MachinePool{Name: name, MachineConfigRef: provv1.ConfigReference{Kind: "DigitaloceanConfig", Name: "store-" + name}}
	}
	server, worker := pool("server"), pool("worker")
	server.EtcdRole, server.ControlPlaneRole, worker.WorkerRole = true, true, true
	w.store = &provv1.Cluster{ObjectMeta: w.named("store"), Spec: provv1.ClusterSpec{CloudCredentialSecretName: "do-token", KubernetesVersion: "v1.36.3+k3s1",
		RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.MachinePool{server, worker}}}}
	if change != nil {
		change(w.store)
	}
	// The API server lists a new group some time after it serves it.
	testkit.Eventually(t, time.Minute, func() error {
		return w.List(t.Context(), &unstructured.UnstructuredList{Object: w.config("any").Object})
	})
	for _, name := range []string{"store-server", "store-worker"} {
		w.make(t, w.config(name))
	}
	w.make(t, w.store)
	t.Cleanup(func() { w.release(t) })
	return w
}

// release deletes the Cluster and its CAPI Cluster without their finalizers.
func (w *broken) release(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, obj := range []client.Object{w.store, &clusterv1.Cluster{ObjectMeta: w.named("store")}} {
		_ = w.Delete(ctx, obj)
		if w.Get(ctx, client.ObjectKeyFromObject(obj), obj) == nil {
			obj.SetFinalizers(nil)
			_ = w.Update(ctx, obj)
		}
	}
}

func (w *broken) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *broken) config(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"region": "nyc3", "size": "s-2vcpu-4gb", "image": "ubuntu-22-04-x64"}}
	obj.SetGroupVersionKind(rkev1.MachineConfigGroupVersion.WithKind("DigitaloceanConfig"))
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	return obj
}

// reconcile reconciles the Cluster and reads it.
func (w *broken) reconcile(t *testing.T) {
	t.Helper()
	testkit.ExpectReconciled(t, w.r, w.store)
	testkit.ExpectExists(t, w.Client, w.store)
}

// edit changes the Cluster.
func (w *broken) edit(t *testing.T, change func(*provv1.Cluster)) {
	t.Helper()
	testkit.ExpectExists(t, w.Client, w.store)
	change(w.store)
	require.NoError(t, w.Update(t.Context(), w.store))
}

// resize changes the size in a Config.
func (w *broken) resize(t *testing.T, config string) {
	t.Helper()
	obj := testkit.ExpectExists(t, w.Client, w.config(config))
	obj.Object["size"] = "s-4vcpu-8gb"
	require.NoError(t, w.Update(t.Context(), obj))
}

// patched changes the status of an object.
func patched[T client.Object](t *testing.T, w *broken, obj T, change func(T)) {
	t.Helper()
	testkit.ExpectExists(t, w.Client, obj)
	before, _ := obj.DeepCopyObject().(client.Object)
	change(obj)
	require.NoError(t, w.Client.Status().Patch(t.Context(), obj, client.MergeFrom(before)))
}

// says is a condition with advice.
func says(kind string, is metav1.ConditionStatus, reason, what string, next ...string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: is, Reason: reason, Message: advice.Message(what, next), LastTransitionTime: metav1.Now()}
}

func isTrue(kind string) metav1.Condition { return says(kind, metav1.ConditionTrue, "Yes", "") }

func isFalse(kind, reason, what string, next ...string) metav1.Condition {
	return says(kind, metav1.ConditionFalse, reason, what, next...)
}

// controlPlane sets the conditions of the control plane, and reports its infrastructure as ready.
func (w *broken) controlPlane(t *testing.T, conditions ...metav1.Condition) {
	t.Helper()
	patched(t, w, &clusterv1.Cluster{ObjectMeta: w.named("store")}, func(c *clusterv1.Cluster) {
		c.Status.Phase = "Provisioned"
		c.Status.Conditions = []metav1.Condition{isTrue(clusterv1.ClusterInfrastructureReadyCondition)}
		c.Status.Initialization.InfrastructureProvisioned = new(true)
	})
	patched(t, w, &rkev1.RKEControlPlane{ObjectMeta: w.named("store")}, func(c *rkev1.RKEControlPlane) {
		c.Status.ObservedGeneration = c.Generation
		c.Status.Conditions = conditions
		c.Status.Initialized = slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
			return c.Type == rkev1.AvailableCondition && (c.Status == metav1.ConditionTrue || c.Reason == rkev1.APINotReachedReason)
		})
		summary := isTrue(rkev1.ReadyCondition)
		for _, c := range conditions {
			if c.Status != metav1.ConditionTrue {
				summary.Status, summary.Reason, summary.Message = metav1.ConditionFalse, c.Reason, c.Message
				break
			}
		}
		c.Status.Conditions = append(c.Status.Conditions, summary)
	})
}

// settled has the control plane report that all is well.
func (w *broken) settled(t *testing.T) {
	t.Helper()
	w.controlPlane(t, says(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason, "all machines match the specification"), isTrue(rkev1.AvailableCondition))
}

// machine creates a machine of a pool with its CAPI Machine. The conditions of the infra machine and
// of the CAPI Machine are told apart by their types. Without any, the machine runs and has a Node.
func (w *broken) machine(t *testing.T, pool string, change func(infra map[string]any), conditions ...metav1.Condition) {
	t.Helper()
	name := "store-" + pool + "-a"
	made := testkit.ExpectExists(t, w.Client, &clusterv1.MachineDeployment{ObjectMeta: w.named("store-" + pool)})
	template := made.Spec.Template.Spec.InfrastructureRef
	capi := &clusterv1.Machine{ObjectMeta: w.named(name), Spec: *made.Spec.Template.Spec.DeepCopy()}
	capi.Labels = made.Spec.Template.Labels
	capi.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachine", Name: name}
	w.make(t, capi)
	isOfCAPI := func(c metav1.Condition) bool {
		return slices.Contains([]string{rkev1.ReconciledCondition, rkev1.PlanAppliedCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineDeletingCondition,
			clusterv1.MachineInfrastructureReadyCondition}, c.Type)
	}
	infra := map[string]any{"phase": "Running", "ready": true, "instanceName": name, "jobName": name + "-create-1", "addresses": []any{map[string]any{"type": "ExternalIP", "address": "198.18.0.11"}}}
	var own []any
	ready := isTrue(rkev1.ReadyCondition)
	if len(conditions) > 0 && !isOfCAPI(conditions[0]) && conditions[0].Status != metav1.ConditionTrue {
		infra = map[string]any{"phase": "Creating", "jobName": name + "-create-1"}
	}
	order := []string{rkev1.ClusterReadyCondition, rkev1.DriverReadyCondition, rkev1.BootstrapReadyCondition, rkev1.CredentialReadyCondition, rkev1.CreateJobCondition,
		rkev1.StateStoredCondition, rkev1.ProviderIDKnownCondition}
	for _, kind := range order {
		if at := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind }); at >= 0 {
			break // the later ones are not reached
		}
		own = append(own, encoded(t, isTrue(kind)))
	}
	for _, c := range conditions {
		if isOfCAPI(c) {
			capi.Status.Conditions = append(capi.Status.Conditions, c)
			continue
		}
		own = append(own, encoded(t, c))
		if ready.Status == metav1.ConditionTrue && c.Status != metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.Reason, c.Message
		}
	}
	infra["conditions"] = append(own, encoded(t, ready))
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"region": "nyc3", "common": map[string]any{"cloudCredentialSecretName": "do-token"}}}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	obj.SetLabels(capi.Labels)
	obj.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template.Name, clusterv1.TemplateClonedFromGroupKindAnnotation: template.Kind + "." + template.APIGroup})
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: capi.UID}})
	if infra["phase"] == "Running" {
		obj.Object["spec"].(map[string]any)["providerID"] = "digitalocean://4711"
		w.secret(t, name+"-machine-state", map[string]string{"journal.json": `{"operation":"create","attempt":1,"phase":"Created","instanceName":"` + name + `"}`})
	}
	if change != nil {
		change(infra)
	}
	w.make(t, obj)
	obj.Object["status"] = infra
	require.NoError(t, w.Client.Status().Update(t.Context(), obj))
	patched(t, w, capi, func(m *clusterv1.Machine) {
		m.Status.Phase = "Provisioning"
		// Cluster API repeats the condition Ready of the infra machine.
		server := ready
		server.Type = clusterv1.MachineInfrastructureReadyCondition
		m.Status.Conditions = []metav1.Condition{server}
		for _, c := range conditions {
			if isOfCAPI(c) {
				m.Status.Conditions = append(m.Status.Conditions, c)
			}
		}
		if len(conditions) == 0 {
			m.Status.Phase, m.Status.NodeRef.Name = "Running", name
			m.Status.Conditions = append(m.Status.Conditions, isTrue(clusterv1.MachineNodeHealthyCondition), isTrue(rkev1.ReconciledCondition))
		}
	})
}

func encoded(t *testing.T, c metav1.Condition) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
	require.NoError(t, err)
	return fields
}

// counts sets the counters of a pool's MachineDeployment.
func (w *broken) counts(t *testing.T, pool string, made, ready, upToDate int32) {
	t.Helper()
	patched(t, w, &clusterv1.MachineDeployment{ObjectMeta: w.named("store-" + pool)}, func(d *clusterv1.MachineDeployment) {
		d.Status.ObservedGeneration = d.Generation
		d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpToDateReplicas, d.Status.AvailableReplicas = &made, &ready, &upToDate, &ready
	})
}

// starts renders the Cluster. The control plane waits for its first machine.
func (w *broken) starts(t *testing.T) {
	t.Helper()
	w.reconcile(t)
	w.controlPlane(t, isFalse(rkev1.ReconciledCondition, rkev1.WaitingForMachinesReason, "store-server-a: its server is not created yet"),
		isFalse(rkev1.AvailableCondition, rkev1.WaitingForControlPlaneReason, "no control plane machine is ready yet"))
	w.uncounted(t)
	w.reconcile(t)
}

// uncounted has the MachineDeployments report a machine each; the tests create none.
func (w *broken) uncounted(t *testing.T) {
	t.Helper()
	for _, pool := range []string{"server", "worker"} {
		made := &clusterv1.MachineDeployment{ObjectMeta: w.named("store-" + pool)}
		if w.Get(t.Context(), client.ObjectKeyFromObject(made), made) == nil {
			w.counts(t, pool, 1, 0, 1)
		}
	}
}

// works has everything of the Cluster run, as before it broke.
func (w *broken) works(t *testing.T) {
	t.Helper()
	w.reconcile(t)
	w.settled(t)
	for _, pool := range []string{"server", "worker"} {
		w.counts(t, pool, 1, 1, 1)
		w.machine(t, pool, nil)
	}
	w.reconcile(t)
	testkit.ExpectCondition(t, w.store, provv1.ReadyCondition, metav1.ConditionTrue, "")
}

// report prints the conditions of the Cluster and the reports about it, as a user reads them.
func (w *broken) report(t *testing.T) string {
	t.Helper()
	testkit.ExpectExists(t, w.Client, w.store)
	var out strings.Builder
	out.WriteString("CONDITIONS of clusters.provisioning.cattle.io store\n")
	conditions := slices.SortedFunc(slices.Values(w.store.Status.Conditions), func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	for _, c := range conditions {
		fmt.Fprintf(&out, "%s=%s %s\n", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			out.WriteString("    " + strings.ReplaceAll(c.Message, "\n", "\n    ") + "\n")
		}
	}
	for _, command := range []string{"why", "describe"} {
		out.WriteString("\n$ drover " + command + " cluster/store\n" + w.ok(t, command, "cluster/store"))
	}
	return w.plain(out.String())
}

var (
	// ageAtEnd and ageInFacts match the ages in the reports.
	ageAtEnd   = regexp.MustCompile(`(?m) {2,}\d+(ms|s|m|h)$`)
	ageInFacts = regexp.MustCompile(`(?m)(\| )?age \d+(ms|s|m|h)$`)
	aUID       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// plain removes what differs between runs.
func (w *broken) plain(text string) string {
	text = strings.ReplaceAll(text, " --kubeconfig "+w.kubeconfig, "")
	text = strings.ReplaceAll(text, w.namespace, "shop")
	text = aUID.ReplaceAllString(text, "UID")
	text = ageInFacts.ReplaceAllString(text, "${1}age AGE")
	return ageAtEnd.ReplaceAllString(text, "  AGE")
}

// TestBrokenClusters: for each broken state, the conditions of the Cluster and the reports name one
// cause and one next step. The golden files are read as a user reads them.
func TestBrokenClusters(t *testing.T) {
	for name, state := range brokenStates() {
		t.Run(name, func(t *testing.T) {
			w := newBroken(t, state.given)
			if state.before != nil {
				state.before(t, w)
			} else {
				w.starts(t)
			}
			if state.after != nil {
				state.after(t, w)
				w.reconcile(t)
			}
			golden.Require(t, "testdata/broken/"+name+".golden", w.report(t))
			w.requireOneCause(t)
		})
	}
}

// requireOneCause checks that the reports name a cause and a next step for the Cluster, and at most one
// of each for a part.
func (w *broken) requireOneCause(t *testing.T) {
	t.Helper()
	var why explain.Report
	require.NoError(t, json.Unmarshal([]byte(w.ok(t, "why", "cluster/store", "-o", "json")), &why))
	require.NotEmpty(t, why.Verdict)
	require.NotEmpty(t, why.Next)
	var d explain.Description
	require.NoError(t, json.Unmarshal([]byte(w.ok(t, "describe", "cluster/store", "-o", "json")), &d))
	if len(d.Warnings) == 0 {
		require.NotNil(t, d.Finding)
		require.NotEmpty(t, d.Finding.Next)
	}
	require.True(t, slices.ContainsFunc(w.store.Status.Conditions, func(c metav1.Condition) bool {
		_, next := advice.Split(c.Message)
		return len(next) > 0
	}), "no condition has a next step")
}

// brokenState is how a Cluster breaks.
type brokenState struct {
	// given changes the Cluster before it is created.
	given func(*provv1.Cluster)
	// before brings it to a state, by default to the first rendering; after breaks it.
	before, after func(*testing.T, *broken)
}

// works is a state that breaks after all has worked.
func works(t *testing.T, w *broken) { t.Helper(); w.works(t) }

func brokenStates() map[string]brokenState {
	all := map[string]brokenState{}
	addBrokenPools(all)
	addReplacements(all)
	addBrokenClusters(all)
	addBrokenMachines(all)
	return all
}

// pool returns a pool of the Cluster.
func pool(c *provv1.Cluster, name string) *provv1.MachinePool {
	for i := range c.Spec.RKEConfig.MachinePools {
		if c.Spec.RKEConfig.MachinePools[i].Name == name {
			return &c.Spec.RKEConfig.MachinePools[i]
		}
	}
	return nil
}

// addBrokenPools adds Clusters with a pool that is not rendered as specified.
func addBrokenPools(all map[string]brokenState) {
	all["config-missing"] = brokenState{given: func(c *provv1.Cluster) { pool(c, "worker").MachineConfigRef.Name = "store-gpu" }}
	all["config-taken"] = brokenState{after: func(t *testing.T, w *broken) {
		theirs := w.config("other-worker")
		theirs.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: provv1.GroupVersion.String(), Kind: "Cluster", Name: "other", UID: "1", Controller: new(true)}})
		w.make(t, theirs)
		w.edit(t, func(c *provv1.Cluster) { pool(c, "worker").MachineConfigRef.Name = "other-worker" })
	}}
	all["driver-inactive"] = brokenState{before: func(t *testing.T, w *broken) {
		w.make(t, &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}, Spec: v3.NodeDriverSpec{URL: "local://"}})
		w.starts(t)
	}}
	all["no-etcd"] = brokenState{given: func(c *provv1.Cluster) { pool(c, "server").EtcdRole = false }}
	all["no-control-plane"] = brokenState{given: func(c *provv1.Cluster) { pool(c, "server").ControlPlaneRole = false }}
	all["second-server-pool"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.edit(t, func(c *provv1.Cluster) {
			second := *pool(c, "server")
			second.Name = "server2"
			c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, second)
		})
	}}
	all["three-servers"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.edit(t, func(c *provv1.Cluster) { pool(c, "server").Quantity = new(int32(3)) })
	}}
	all["server-pool-to-zero"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.edit(t, func(c *provv1.Cluster) { pool(c, "server").Quantity = new(int32(0)) })
	}}
	all["server-config-changed"] = brokenState{before: works, after: func(t *testing.T, w *broken) { w.resize(t, "store-server") }}
	all["server-pool-removed"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.edit(t, func(c *provv1.Cluster) { c.Spec.RKEConfig.MachinePools = c.Spec.RKEConfig.MachinePools[1:] })
	}}
	all["windows-pool"] = brokenState{given: func(c *provv1.Cluster) { pool(c, "worker").MachineOS = "windows" }}
}

// addReplacements adds Clusters whose machines differ from their Config.
func addReplacements(all map[string]brokenState) {
	policy := func(policy string) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) { c.Spec.RKEConfig.MachineReplacement = policy }
	}
	change := func(t *testing.T, w *broken) { t.Helper(); w.resize(t, "store-worker") }
	all["replacement-waits"] = brokenState{given: policy(provv1.ReplaceOnApproval), before: works, after: change}
	all["replacement-never"] = brokenState{given: policy(provv1.ReplaceNever), before: works, after: change}
	all["replacement-old-approval"] = brokenState{given: policy(provv1.ReplaceOnApproval), before: works, after: func(t *testing.T, w *broken) {
		change(t, w)
		w.edit(t, func(c *provv1.Cluster) { c.Annotations[provv1.ApproveReplacementAnnotation] = "1a2b3c4d" })
	}}
}

// advised is a condition of the control plane or of a CAPI Machine, with the advice of the manager.
func (w *broken) advised(kind, reason, what string) metav1.Condition {
	about := advice.ControlPlane{Namespace: w.namespace, Name: "store", Cluster: "store", Rendered: true}
	if kind != rkev1.AvailableCondition && reason != rkev1.KubernetesVersionUnknownReason {
		about.Machine, about.Deployment, about.Infra = "store-worker-a", "store-worker", "digitaloceanmachines.rke-machine.cattle.io/store-worker-a"
	}
	return isFalse(kind, reason, what, about.On(reason)...)
}

// addBrokenClusters adds Clusters that nothing is rendered for, or whose control plane reports a problem.
func addBrokenClusters(all map[string]brokenState) {
	all["version-unknown"] = brokenState{given: func(c *provv1.Cluster) { c.Spec.KubernetesVersion = "v1.19.0+k3s1" }, before: func(t *testing.T, w *broken) {
		w.reconcile(t)
		w.controlPlane(t, w.advised(rkev1.ReconciledCondition, rkev1.KubernetesVersionUnknownReason, "v1.19.0+k3s1: the catalogue of releases has no k3s v1.19"),
			isFalse(rkev1.AvailableCondition, rkev1.WaitingForControlPlaneReason, "no control plane machine is ready yet"))
		w.uncounted(t)
		w.reconcile(t)
	}}
	all["configuration-invalid"] = brokenState{given: func(c *provv1.Cluster) {
		c.Spec.RKEConfig.ETCD = &rkev1.ETCD{SnapshotScheduleCron: "often"}
	}, before: func(t *testing.T, w *broken) { w.reconcile(t) }}
	all["name-taken"] = brokenState{before: func(t *testing.T, w *broken) {
		w.apply(t, `{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: store}, spec: {controlPlaneEndpoint: {host: api.example, port: 6443}}}`)
		w.reconcile(t)
	}}
	all["capi-cluster-missing"] = brokenState{given: func(c *provv1.Cluster) { c.Annotations = map[string]string{provv1.RenderedAnnotation: "store"} },
		before: func(t *testing.T, w *broken) { w.reconcile(t) }}
	all["paused"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.edit(t, func(c *provv1.Cluster) { c.Annotations[clusterv1.PausedAnnotation] = "" })
	}}
	all["paused-capi-cluster"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		capi := testkit.ExpectExists(t, w.Client, &clusterv1.Cluster{ObjectMeta: w.named("store")})
		capi.Spec.Paused = new(true)
		require.NoError(t, w.Update(t.Context(), capi))
	}}
	all["external-infrastructure"] = brokenState{given: func(c *provv1.Cluster) {
		c.Spec.RKEConfig.InfrastructureRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "DockerCluster", Name: "store"}
	}, before: func(t *testing.T, w *broken) { w.reconcile(t) }}
	all["fields-not-acted-on"] = brokenState{given: func(c *provv1.Cluster) {
		c.Spec.LocalClusterAuthEndpoint.Enabled = true
		pool(c, "worker").DisplayName = "Workers"
	}, before: works}
	all["api-unreachable"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		w.controlPlane(t, says(rkev1.ReconciledCondition, metav1.ConditionTrue, rkev1.ReconciledReason, "all machines match the specification"),
			w.advised(rkev1.AvailableCondition, rkev1.APINotReachedReason,
				"neither https://198.18.0.11:6443 nor a server of the control plane responds to the manager. Drover has no tunnel yet to servers that the manager cannot reach"))
	}}
}

// ofMachine is a condition of the infra machine of pool worker, with the advice of the manager.
func (w *broken) ofMachine(kind, reason, what string, last *advice.Attempt, change ...func(*advice.Machine)) metav1.Condition {
	about := advice.Machine{Namespace: w.namespace, Name: "store-worker-a", UID: "UID", Kind: "DigitaloceanMachine", Driver: "digitalocean", CAPIMachine: "store-worker-a", Cluster: "store",
		CredentialNamespace: w.namespace, CredentialName: "do-token", Credential: "do-token", State: "store-worker-a-machine-state", Instance: "store-worker-a", Job: "store-worker-a-create-1", Cloned: true, Pool: "worker"}
	for _, one := range change {
		one(&about)
	}
	c := isFalse(kind, reason, what)
	if last != nil {
		c.Message += ". " + about.Explain(*last)
	}
	c.Message = advice.Message(c.Message, about.On(c, last))
	return c
}

// worker is a state whose worker has a problem, while the server runs.
func worker(change func(map[string]any), conditions func(w *broken) []metav1.Condition) brokenState {
	return brokenState{before: func(t *testing.T, w *broken) {
		w.reconcile(t)
		w.settled(t)
		w.counts(t, "server", 1, 1, 1)
		w.machine(t, "server", nil)
		of := conditions(w)
		w.machine(t, "worker", change, of...)
		w.counts(t, "worker", 1, 0, 1)
		for _, c := range of {
			if c.Type == rkev1.ReconciledCondition && c.Status != metav1.ConditionTrue {
				reason := rkev1.WaitingForMachinesReason
				if c.Reason == rkev1.PlanFailedReason {
					reason = c.Reason
				}
				what, next := advice.Split(c.Message)
				w.controlPlane(t, isFalse(rkev1.ReconciledCondition, reason, "store-worker-a: "+what, next...), isTrue(rkev1.AvailableCondition))
			}
		}
		w.reconcile(t)
	}}
}

// addBrokenMachines adds Clusters with a broken machine.
func addBrokenMachines(all map[string]brokenState) {
	only := func(kind, reason, what string) func(w *broken) []metav1.Condition {
		return func(w *broken) []metav1.Condition {
			return []metav1.Condition{w.ofMachine(kind, reason, what, nil),
				isFalse(rkev1.ReconciledCondition, rkev1.WaitingForServerReason, "its server is not created yet")}
		}
	}
	all["credential-missing"] = worker(nil, only(rkev1.CredentialReadyCondition, rkev1.CredentialMissingReason, "Secret do-token does not exist: create it with the keys accessToken"))
	all["credential-not-shared"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{w.ofMachine(rkev1.CredentialReadyCondition, rkev1.CredentialNotSharedReason, "there is no Secret cattle-global-data:do-token that may be used here: create it, and name this namespace, "+
			w.namespace+", in its annotation "+rkev1.AllowedNamespacesAnnotation, nil, func(a *advice.Machine) {
			a.CredentialNamespace, a.Credential = "cattle-global-data", "cattle-global-data:do-token"
		}), isFalse(rkev1.ReconciledCondition, rkev1.WaitingForServerReason, "its server is not created yet")}
	})
	all["quota"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{w.ofMachine(rkev1.CreateJobCondition, rkev1.WaitingForRetryReason,
			"attempt 2 failed (Quota, CreateFailed): 422 creating this/these droplet(s) will exceed your droplet limit",
			&advice.Attempt{Class: rkev1.ClassQuota, Reason: "CreateFailed", Message: "422"}),
			isFalse(rkev1.ReconciledCondition, rkev1.WaitingForServerReason, "its server is not created yet")}
	})
	all["size-invalid"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{w.ofMachine(rkev1.CreateJobCondition, rkev1.AttemptsExhaustedReason,
			"attempt 1 failed (Invalid, CreateFailed): 422 size: You specified an invalid size for Droplet creation",
			&advice.Attempt{Class: rkev1.ClassInvalid, Reason: "CreateFailed", Message: "422"}),
			isFalse(rkev1.ReconciledCondition, rkev1.WaitingForServerReason, "its server is not created yet")}
	})
	all["job-missing"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{says(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobPendingReason, "Job store-worker-a-create-1 was created"),
			isFalse(rkev1.ReconciledCondition, rkev1.WaitingForServerReason, "its server is not created yet")}
	})
	all["agent-never-calls"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{w.advised(rkev1.ReconciledCondition, rkev1.WaitingForAgentReason, "its agent has not called the manager yet. It calls after its server has started. If it never calls, "+
			"the server has not run its bootstrap data, cannot reach the manager, or does not trust the manager's certificate")}
	})
	all["plan-failed"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{w.advised(rkev1.ReconciledCondition, rkev1.PlanFailedReason, "its agent gave up the plan: step install: exit status 1: no space left on device")}
	})
	all["server-vanished"] = worker(nil, func(w *broken) []metav1.Condition {
		return []metav1.Condition{isTrue(rkev1.ReconciledCondition),
			isFalse(clusterv1.MachineNodeHealthyCondition, "NodeNotHealthy", "* Node.Ready: Kubelet stopped posting node status."),
			w.ofMachine(rkev1.ServerExistsCondition, rkev1.ServerNotListedReason, "the cloud no longer lists the server. If the server is gone, delete the Machine to replace it", nil)}
	})
	all["deletion-waits"] = brokenState{before: works, after: func(t *testing.T, w *broken) {
		for _, name := range []string{"store-worker-a"} {
			machine := testkit.ExpectExists(t, w.Client, &clusterv1.Machine{ObjectMeta: w.named(name)})
			machine.Finalizers = []string{"test/held"}
			require.NoError(t, w.Update(t.Context(), machine))
			require.NoError(t, w.Delete(t.Context(), machine))
			patched(t, w, machine, func(m *clusterv1.Machine) {
				m.Status.Phase = "Deleting"
				m.Status.Conditions = append(m.Status.Conditions, says(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, ""))
			})
			infra := &unstructured.Unstructured{}
			infra.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
			infra.SetNamespace(w.namespace)
			infra.SetName(name)
			testkit.ExpectExists(t, w.Client, infra)
			infra.SetFinalizers([]string{"test/held"})
			require.NoError(t, w.Update(t.Context(), infra))
			require.NoError(t, w.Delete(t.Context(), infra))
			patched(t, w, infra, func(m *unstructured.Unstructured) {
				failed := w.ofMachine(rkev1.DeleteJobCondition, rkev1.AttemptsExhaustedReason, "attempt 3 failed (Unauthorized, RemoveFailed): 401 Unable to authenticate you",
					&advice.Attempt{Class: rkev1.ClassUnauthorized, Reason: "RemoveFailed", Message: "401", Removes: true}, func(a *advice.Machine) { a.Deleting = true })
				ready := failed
				ready.Type = rkev1.ReadyCondition
				require.NoError(t, unstructured.SetNestedSlice(m.Object, []any{encoded(t, failed), encoded(t, ready)}, "status", "conditions"))
				require.NoError(t, unstructured.SetNestedField(m.Object, "Deleting", "status", "phase"))
			})
			t.Cleanup(func() {
				ctx := context.WithoutCancel(t.Context())
				for _, obj := range []client.Object{machine, infra} {
					if w.Get(ctx, client.ObjectKeyFromObject(obj), obj) == nil {
						obj.SetFinalizers(nil)
						_ = w.Update(ctx, obj)
					}
				}
			})
		}
		server := testkit.ExpectExists(t, w.Client, &clusterv1.Machine{ObjectMeta: w.named("store-server-a")})
		require.NoError(t, w.Delete(t.Context(), server))
		capi := testkit.ExpectExists(t, w.Client, &clusterv1.Cluster{ObjectMeta: w.named("store")})
		capi.Finalizers = []string{"test/held"}
		require.NoError(t, w.Update(t.Context(), capi))
		require.NoError(t, w.Delete(t.Context(), w.store))
	}}
}
