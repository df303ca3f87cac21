package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/serverscan"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/access"
)

// account is a namespace with a Cluster and a credential of the local cloud; controller and pod are the real ones, only the
// Job controller is played.
type account struct {
	*worker
	client    client.Client
	namespace string
	cluster   *clusterv1.Cluster
	scans     *serverscan.Reconciler
}

func newAccount(t *testing.T) *account {
	t.Helper()
	crds, err := capi.CRDs()
	require.NoError(t, err)
	own, err := charts.CRDs()
	require.NoError(t, err)
	flags, _ := driver.Builtin("digitalocean")
	fields, err := crdgen.FieldsOf("digitalocean", flags, crdgen.Rules{PrivateCredentialFields: []string{"accessToken"}})
	require.NoError(t, err)
	_, _, kind, err := crdgen.CRDs(crdgen.Schema{Driver: "digitalocean", Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, append(append(crds, own...), kind)...)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	c := testkit.Client(t, scheme)
	a := &account{worker: newWorker(t), client: c, namespace: testkit.Namespace(t)}
	a.scans = serverscan.New(serverscan.Options{Client: c, Reader: c, Jobs: jobrunner.Settings{Image: "registry.test/machine:v1"},
		Clock: clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Hour))})
	a.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	require.NoError(t, c.Create(t.Context(), a.cluster))
	require.NoError(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "cred"},
		StringData: map[string]string{"accessToken": theCloud.Token()}}))
	return a
}

// server makes a server with the tags of a machine, as that machine's Job does.
func (a *account) server(name, uid string) {
	a.Helper()
	machine := jobrunner.MachineRef{Namespace: a.namespace, Name: name, UID: uid, Kind: "DigitaloceanMachine", ClusterName: "c1", ClusterUID: string(a.cluster.UID)}
	task := jobrunner.Task{Request: jobrunner.Request{Operation: state.Create, Attempt: 1, Namespace: a.namespace, StateSecret: jobrunner.StateSecretName(name),
		Machine: machine, InstanceName: name, Driver: state.DriverRef{Name: "digitalocean", Builtin: true}, Tags: jobrunner.Tags(machine),
		Options:       map[string]any{"digitalocean-region": "nyc3"},
		CredentialEnv: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": theCloud.Token()}, SSHTimeoutSeconds: 1}}
	a.give(task)
	a.run(task, "")
	a.dir = a.TempDir()
}

// scan does a ServerScan from its beginning to its end.
func (a *account) scan(name string, remove bool) rkev1.ServerScanStatus {
	a.Helper()
	scan := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name},
		Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred", Remove: remove}}
	require.NoError(a, a.client.Create(a.Context(), scan))
	for range 10 {
		testkit.ExpectReconciled(a, a.scans, scan)
		testkit.ExpectExists(a, a.client, scan)
		if meta.IsStatusConditionTrue(scan.Status.Conditions, rkev1.ScanDoneCondition) {
			return scan.Status
		}
		a.runJob(scan)
	}
	require.Fail(a, "the scan has no end", "%+v", scan.Status)
	return rkev1.ServerScanStatus{}
}

// runJob runs the pod of the attempt whose turn it is, if its Job was made.
func (a *account) runJob(scan *rkev1.ServerScan) {
	a.Helper()
	task := jobrunner.Task{Base: scan.Name, Request: jobrunner.Request{Operation: state.Scan, Attempt: scan.Status.Attempt, Namespace: a.namespace}}
	asked := &corev1.Secret{}
	if a.client.Get(a.Context(), client.ObjectKey{Namespace: a.namespace, Name: task.Name()}, asked) != nil {
		return
	}
	require.NoError(a, json.Unmarshal(asked.Data[jobrunner.RequestKey], &task.Request))
	a.run(task, "")
	got := access.Compare(access.Grants(jobrunner.Role(task).Rules), a.recorder.Uses())
	require.Empty(a, got.Unused, "the Role of a scan is not what it uses")
	require.Empty(a, a.recorder.Refused())
}

// verdicts of the servers that this account's tests made; others share the cloud.
func verdicts(status rkev1.ServerScanStatus, names ...string) map[string]string {
	out := map[string]string{}
	for _, s := range status.Servers {
		for _, name := range names {
			if s.Name == name {
				out[name] = s.Verdict
			}
		}
	}
	return out
}

// TestScan_realServers: an orphan is found by the tags that the unmodified driver wrote, and removed; what has a machine, and
// what is another Cluster's, stays.
func TestScan_realServers(t *testing.T) {
	a, stranger := newAccount(t), newAccount(t)
	machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	machine.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
	machine.SetNamespace(a.namespace)
	machine.SetName("known")
	require.NoError(t, a.client.Create(t.Context(), machine))
	a.server("known", string(machine.GetUID()))
	a.server("orphan", "uid-of-nobody")
	stranger.server("strange", "uid-of-a-stranger")

	status := a.scan("look", false)
	require.Equal(t, map[string]string{"orphan": rkev1.VerdictOrphan, "strange": rkev1.VerdictUncertain}, verdicts(status, "known", "orphan", "strange"))
	require.EqualValues(t, 1, status.Known)
	require.ElementsMatch(t, []string{"known", "orphan", "strange"}, droplets())

	status = a.scan("remove", true)
	require.Equal(t, map[string]string{"orphan": rkev1.VerdictRemoved, "strange": rkev1.VerdictUncertain}, verdicts(status, "known", "orphan", "strange"))
	require.ElementsMatch(t, []string{"known", "strange"}, droplets())
	status = a.scan("again", true)
	require.Equal(t, map[string]string{"strange": rkev1.VerdictUncertain}, verdicts(status, "known", "orphan", "strange"))
}

func droplets() []string {
	var names []string
	for _, record := range theCloud.Ledger.Live(ledger.KindDroplet) {
		names = append(names, record.Name)
	}
	return names
}
