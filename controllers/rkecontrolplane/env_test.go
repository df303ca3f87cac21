package rkecontrolplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/capi/kubeconfig"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/rkecontrolplane"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	// A kind of infra machine that a CRD of the cluster says little of.
	_, _, kind, kindErr := crdgen.CRDs(crdgen.Schema{Driver: "generic", Fields: []crdgen.Field{}})
	if err = errors.Join(err, ownErr, kindErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(append(crds, own...), kind)...))
}

// workloads are workload clusters: those that answer, and the labels of Nodes there.
type workloads struct {
	answer map[client.ObjectKey]bool
	// through is the server by which they are reached.
	through string
	proxied bool
	labels  map[string]map[string]string
	taints  map[string][]corev1.Taint
	// refused is why a Node is given nothing.
	refused map[string]error
	// nodes are those that ForgetNodes looks at, and silent the names of those that no kubelet reports.
	nodes  []corev1.Node
	silent []string
	// unread is why answers are refused.
	unread string
}

var _ rkecontrolplane.Clusters = &workloads{}

func (c *workloads) Reaches(cluster client.ObjectKey) bool    { return c.answer[cluster] }
func (c *workloads) Through(client.ObjectKey) string          { return c.through }
func (c *workloads) Proxied(client.ObjectKey) bool            { return c.proxied }
func (c *workloads) OnNode(func(client.ObjectKey, types.UID)) {}

func (c *workloads) KeepNode(_ context.Context, _ client.ObjectKey, node string, labels map[string]string, taints []corev1.Taint) error {
	if err := c.refused[node]; err != nil {
		return err
	}
	c.labels[node], c.taints[node] = labels, taints
	return nil
}

func (c *workloads) Refused(client.ObjectKey) string { return c.unread }

func (c *workloads) ForgetNodes(_ context.Context, cluster client.ObjectKey, forget func(*corev1.Node) bool) ([]corev1.Node, error) {
	var kept, stay []corev1.Node
	for _, node := range c.nodes {
		forgets := c.answer[cluster] && forget(&node)
		if forgets && !slices.Contains(c.silent, node.Name) {
			stay = append(stay, node)
		}
		if !forgets || !slices.Contains(c.silent, node.Name) {
			kept = append(kept, node)
		}
	}
	c.nodes = kept
	return stay, nil
}

// world is a Cluster whose infrastructure is provisioned, with an RKEControlPlane and no machine.
type world struct {
	client.WithWatch
	*testing.T
	obj     *rkev1.RKEControlPlane
	cluster *clusterv1.Cluster
	reached *workloads
	clock   *clocktesting.FakePassiveClock
	r       *rkecontrolplane.Reconciler
	// writes are requests that change something.
	writes []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), clusterv1.AddToScheme(scheme), rkev1.AddToScheme(scheme)))
	w := &world{T: t, WithWatch: testkit.Client(t, scheme), reached: &workloads{answer: map[client.ObjectKey]bool{}, labels: map[string]map[string]string{}, taints: map[string][]corev1.Taint{}}, clock: clocktesting.NewFakePassiveClock(time.Now())}
	counting := testkit.Writes(w.WithWatch, func(write string, do func() error) error {
		w.writes = append(w.writes, write)
		return do()
	})
	w.r = w.reconciler(counting)
	meta := metav1.ObjectMeta{Namespace: testkit.Namespace(t), Name: "c1"}
	w.cluster = &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "cp"}}}
	require.NoError(t, w.Create(t.Context(), w.cluster))
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	require.NoError(t, w.Status().Update(t.Context(), w.cluster))
	w.obj = &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "cp", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}}
	w.obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.cluster, clusterv1.GroupVersion.WithKind("Cluster"))}
	w.obj.Spec.KubernetesVersion = "v1.36.3+k3s1"
	require.NoError(t, w.Create(t.Context(), w.obj))
	return w
}

func (w *world) reconciler(c client.Client) *rkecontrolplane.Reconciler {
	return rkecontrolplane.New(rkecontrolplane.Options{Client: c, Reader: c, Clusters: w.reached, Clock: w.clock,
		Releases: types.NamespacedName{Namespace: "default", Name: "no-such-catalogue"}})
}

// reconcile reconciles once, and reads the control plane.
func (w *world) reconcile() {
	w.Helper()
	testkit.ExpectReconciled(w.T, w.r, w.obj)
	w.read()
}

func (w *world) read() {
	w.Helper()
	fresh := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: w.obj.Name}}
	w.obj = testkit.ExpectExists(w.T, w.WithWatch, fresh)
}

// quiet reconciles until nothing is written any more, as watches would have it.
func (w *world) quiet() {
	w.Helper()
	for range 10 {
		before := len(w.writes)
		if w.reconcile(); len(w.writes) == before {
			return
		}
	}
	require.Fail(w, "it goes on and on", "%v", w.writes)
}

// change changes the control plane's specification.
func (w *world) change(do func(*rkev1.RKEControlPlane)) {
	w.Helper()
	w.read()
	do(w.obj)
	require.NoError(w, w.Update(w.Context(), w.obj))
}

// configure changes machineGlobalConfig.
func (w *world) configure(text string) {
	w.Helper()
	w.change(func(o *rkev1.RKEControlPlane) {
		require.NoError(w, json.Unmarshal([]byte(text), &o.Spec.MachineGlobalConfig))
	})
}

// machine makes a Machine as Cluster API, and what belongs to it as the bootstrap provider makes it.
func (w *world) machine(name string, roles ...string) *clusterv1.Machine {
	w.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "c1"}
	for _, role := range roles {
		labels["rke.cattle.io/"+role+"-role"] = "true"
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name, Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: "c1",
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.test", Kind: "AcmeMachine", Name: name}}}
	require.NoError(w, w.Create(w.Context(), machine))
	bootstrap := &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1", rkev1.MachineIDLabel: "id-" + name}}}
	require.NoError(w, w.Create(w.Context(), bootstrap))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name + "-machine-plan", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(bootstrap, rkev1.GroupVersion.WithKind("RKEBootstrap"))}}, Type: plan.SecretType}
	require.NoError(w, w.Create(w.Context(), secret))
	return machine
}

// server provisions the server of a machine, the last part of whose address is given.
func (w *world) server(name string, last int) {
	w.Helper()
	machine := w.machineNamed(name)
	machine.Spec.ProviderID = fmt.Sprintf("acme://%d", last)
	require.NoError(w, w.Update(w.Context(), machine))
	machine.Status.Initialization.InfrastructureProvisioned = new(true)
	machine.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.0.0.%d", last)},
		{Type: clusterv1.MachineExternalIP, Address: fmt.Sprintf("203.0.113.%d", last)}}
	require.NoError(w, w.Status().Update(w.Context(), machine))
}

// provisioned is a machine with its server.
func (w *world) provisioned(name string, last int, roles ...string) {
	w.Helper()
	w.machine(name, roles...)
	w.server(name, last)
}

func (w *world) machineNamed(name string) *clusterv1.Machine {
	w.Helper()
	return testkit.ExpectExists(w.T, w.WithWatch, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}})
}

func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	return testkit.ExpectExists(w.T, w.WithWatch, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.obj.Namespace, Name: name}})
}

// foreign is the credential of another namespace that the specification names.
func (w *world) foreign() *corev1.Secret {
	w.Helper()
	ref := credential.Parse(w.obj.Namespace, w.obj.Spec.ETCD.S3.CloudCredentialName)
	return testkit.ExpectExists(w.T, w.WithWatch, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}})
}

// planOf is the plan that a machine was given, and nil without one.
func (w *world) planOf(name string) *plan.Plan {
	w.Helper()
	raw := w.secret(name + "-machine-plan").Data[plan.KeyPlan]
	if raw == nil {
		return nil
	}
	given := &plan.Plan{}
	require.NoError(w, json.Unmarshal(raw, given))
	return given
}

// agent writes what a machine's agent would write.
func (w *world) agent(name string, data map[string]string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	before := maps.Clone(secret.Data)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	require.NoError(w, plan.MayWrite(plan.Agent, before, secret.Data))
	require.NoError(w, w.Update(w.Context(), secret))
}

// applies has the agent apply what it was given; its probes are not asked yet.
func (w *world) applies(name string) {
	w.Helper()
	w.agent(name, map[string]string{plan.KeyState: string(plan.StateInProgress)})
	w.agent(name, map[string]string{plan.KeyState: string(plan.StateSucceeded), plan.KeyAppliedChecksum: plan.Checksum(w.secret(name + "-machine-plan").Data[plan.KeyPlan])})
}

// isWell has the agent find all probes healthy.
func (w *world) isWell(name string) {
	w.Helper()
	statuses := map[string]plan.ProbeStatus{}
	for probe := range w.planOf(name).Probes {
		statuses[probe] = plan.ProbeStatus{Healthy: true}
	}
	raw, err := json.Marshal(statuses)
	require.NoError(w, err)
	w.agent(name, map[string]string{plan.KeyProbeStatuses: string(raw)})
}

// obeys has the agent apply what it was given, which is well then, and the manager see it.
func (w *world) obeys(name string) {
	w.Helper()
	w.applies(name)
	w.isWell(name)
	w.quiet()
}

// host is where the kubeconfig leads.
func (w *world) host() string {
	w.Helper()
	config, err := kubeconfig.Parse(w.secret("c1-kubeconfig").Data["value"])
	require.NoError(w, err, "the manager refuses kubeconfigs of users that say more than an address, and ours passes")
	return config.Host
}

// up has a cluster with a server whose API answers.
func (w *world) up() {
	w.Helper()
	w.provisioned("server", 1, "etcd", "control-plane", "worker")
	w.quiet()
	w.obeys("server")
	w.reached.answer[client.ObjectKeyFromObject(w.cluster)] = true
	w.quiet()
	w.expect(rkev1.ReadyCondition, metav1.ConditionTrue, rkev1.ReadyReason)
}

func (w *world) expect(kind string, status metav1.ConditionStatus, reason string) string {
	w.Helper()
	return testkit.ExpectCondition(w.T, w.obj, kind, status, reason).Message
}

func (w *world) expectMachine(name, reason string) string {
	w.Helper()
	status := metav1.ConditionFalse
	if reason == rkev1.UpToDateReason {
		status = metav1.ConditionTrue
	}
	told := testkit.ExpectCondition(w.T, w.machineNamed(name), rkev1.ReconciledCondition, status, reason)
	require.Zero(w, told.ObservedGeneration, "it is not about the Machine's spec")
	return told.Message
}

// runs has Cluster API say of a Machine that its kubelet has a version, and which of its conditions are True.
func (w *world) runs(name, version string, conditions ...string) {
	w.Helper()
	machine := w.machineNamed(name)
	machine.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	for _, kind := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition} {
		status := metav1.ConditionFalse
		if slices.Contains(conditions, kind) {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test"})
	}
	require.NoError(w, w.Status().Update(w.Context(), machine))
}

// expectCounts expects the counters that Cluster API reads.
func (w *world) expectCounts(all, ready, available, upToDate int32, versions ...clusterv1.StatusVersion) {
	w.Helper()
	s := w.obj.Status
	require.Equal(w, []int32{all, ready, available, upToDate}, []int32{*s.Replicas, *s.ReadyReplicas, *s.AvailableReplicas, *s.UpToDateReplicas})
	require.Equal(w, versions, s.Versions)
}

// versions are those of everything in the namespace that the controller may write.
func (w *world) versions() map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &clusterv1.MachineList{}, &rkev1.RKEControlPlaneList{}, &clusterv1.ClusterList{}} {
		require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.obj.Namespace)))
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		require.NoError(w, err)
		items, _ := raw["items"].([]any)
		for _, item := range items {
			meta, _ := item.(map[string]any)["metadata"].(map[string]any)
			found[fmt.Sprintf("%T %s", list, meta["name"])] = fmt.Sprint(meta["resourceVersion"])
		}
	}
	return found
}

func (w *world) isGone(name string) bool {
	w.Helper()
	return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKey{Namespace: w.obj.Namespace, Name: name}, &corev1.Secret{}))
}

// file is the content of a file in a plan.
func file(t *testing.T, p *plan.Plan, end string) string {
	t.Helper()
	for _, f := range p.Files {
		if strings.HasSuffix(f.Path, end) {
			content, err := f.Bytes()
			require.NoError(t, err)
			return string(content)
		}
	}
	require.Fail(t, "no such file", end)
	return ""
}
