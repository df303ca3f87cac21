package serverscan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/serverscan"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := definitions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCRDs(crds...))
}

const token = "marker-secret-token"

// world is a namespace with a Cluster, a credential and a machine in it. The test plays the Jobs' pods.
type world struct {
	*testing.T
	client     client.WithWatch
	namespace  string
	reconciler *serverscan.Reconciler
	clock      *clocktesting.FakePassiveClock
	cluster    *clusterv1.Cluster
	scan       *rkev1.ServerScan
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme,
		clusterv1.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	c := testkit.Client(t, scheme)
	w := &world{T: t, client: c, namespace: testkit.Namespace(t), clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.reconciler = w.manager(func(_ string, do func() error) error { return do() })
	w.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	require.NoError(t, c.Create(t.Context(), w.cluster))
	w.secret("cred", nil)
	return w
}

// manager is one whose writes go through a function.
func (w *world) manager(writes func(write string, do func() error) error) *serverscan.Reconciler {
	return serverscan.New(serverscan.Options{Client: testkit.Writes(w.client, writes), Reader: w.client, Clock: w.clock, Jobs: jobrunner.Settings{Image: "registry.test/machine:v1"}})
}

// refuse fails writes of a verb.
func (w *world) refuse(verb string) func(string, func() error) error {
	return func(write string, do func() error) error {
		if strings.HasPrefix(write, verb) {
			return errors.New("connection refused")
		}
		return do()
	}
}

// definitions are Cluster API's, ours, and those of one driver whose servers can be listed and one whose cannot.
func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := capi.CRDs()
	if err != nil {
		return nil, err
	}
	own, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	crds = append(crds, own...)
	for _, nd := range driver.Predefined() {
		name := nd.DriverName()
		if name != "digitalocean" && name != "exoscale" {
			continue
		}
		kind, err := machineKind(name, nd.Annotations)
		if err != nil {
			return nil, err
		}
		crds = append(crds, kind)
	}
	return crds, nil
}

func machineKind(name string, annotations map[string]string) (*apiextensionsv1.CustomResourceDefinition, error) {
	flags, _ := driver.Builtin(name)
	rules, err := crdgen.RulesFromAnnotations(annotations)
	if err != nil {
		return nil, err
	}
	fields, err := crdgen.FieldsOf(name, flags, rules)
	if err != nil {
		return nil, err
	}
	_, _, kind, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
	return kind, err
}

func (w *world) secret(name string, annotations map[string]string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: annotations}, StringData: map[string]string{"accessToken": token}}
	require.NoError(w, w.client.Create(w.Context(), secret))
	return secret
}

// machine is one that is ready.
func (w *world) machine(name, providerID string) *unstructured.Unstructured {
	w.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"providerID": providerID, "common": map[string]any{"cloudCredentialSecretName": "cred"}}}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"))
	obj.SetNamespace(w.namespace)
	obj.SetName(name)
	require.NoError(w, w.client.Create(w.Context(), obj))
	require.NoError(w, unstructured.SetNestedField(obj.Object, true, "status", "ready"))
	require.NoError(w, w.client.Status().Update(w.Context(), obj))
	return obj
}

// ask makes a ServerScan and reconciles it for the first time.
func (w *world) ask(change func(*rkev1.ServerScanSpec)) {
	w.Helper()
	w.scan = &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "look"},
		Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred"}}
	if change != nil {
		change(&w.scan.Spec)
	}
	require.NoError(w, w.client.Create(w.Context(), w.scan))
	w.reconcile()
}

func (w *world) reconcile() reconcile.Result {
	w.Helper()
	result := testkit.ExpectReconciled(w, w.reconciler, w.scan)
	require.NoError(w, client.IgnoreNotFound(w.client.Get(w.Context(), client.ObjectKeyFromObject(w.scan), w.scan)))
	return result
}

func (w *world) expect(status metav1.ConditionStatus, reason string) string {
	w.Helper()
	return testkit.ExpectCondition(w, w.scan, rkev1.ScanDoneCondition, status, reason).Message
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// request is what the Job of an attempt was asked.
func (w *world) request(name string) jobrunner.Request {
	w.Helper()
	secret := testkit.ExpectExists(w, w.client, &corev1.Secret{ObjectMeta: w.meta(name)})
	var request jobrunner.Request
	require.NoError(w, json.Unmarshal(secret.Data[jobrunner.RequestKey], &request))
	return request
}

// end plays the pod of an attempt's Job, and the Job controller.
func (w *world) end(name string, result state.Result) {
	w.Helper()
	request := w.request(name)
	result.Operation, result.Attempt = state.Scan, request.Attempt
	raw, err := json.Marshal(result)
	require.NoError(w, err)
	secret := testkit.ExpectExists(w, w.client, &corev1.Secret{ObjectMeta: w.meta(request.StateSecret)})
	secret.Data = map[string][]byte{state.ResultKey: raw}
	require.NoError(w, w.client.Update(w.Context(), secret))
	testkit.EndJob(w, w.client, &batchv1.Job{ObjectMeta: w.meta(name)}, result.Outcome == state.Succeeded, "", time.Now())
}

// providerID differs from test to test, for machines of all namespaces count.
func (w *world) providerID(id string) string { return "digitalocean://" + w.namespace + id }

// found is a server of our Cluster as a Job reports it.
func (w *world) found(id, machineUID string) state.ScannedServer {
	return state.ScannedServer{ID: id, Name: "pool-" + id, ProviderID: w.providerID(id), MachineUID: machineUID, Machine: w.namespace + "-pool-" + id,
		ClusterUID: string(w.cluster.UID), Cluster: "c1", Created: w.clock.Now().Add(-3 * time.Hour)}
}

func (w *world) report(servers ...state.ScannedServer) state.Result {
	return state.Result{Outcome: state.Succeeded, Scan: &state.ScanReport{Servers: servers}}
}

// nothingSecretIsLeft: what held the credential, and what gave the pod its rights, is gone.
func (w *world) nothingSecretIsLeft() {
	w.Helper()
	for _, name := range []string{"look-scan-1", "look-scan-2", "look-scan"} {
		testkit.ExpectNotFound(w, w.client, &corev1.Secret{ObjectMeta: w.meta(name)}, &corev1.ServiceAccount{ObjectMeta: w.meta(name)},
			&rbacv1.Role{ObjectMeta: w.meta(name)}, &rbacv1.RoleBinding{ObjectMeta: w.meta(name)})
	}
	raw, err := json.Marshal(w.scan)
	require.NoError(w, err)
	require.NotContains(w, string(raw), token)
}

func (w *world) verdicts() string {
	var all []string
	for _, s := range w.scan.Status.Servers {
		all = append(all, s.ID+" "+s.Verdict)
	}
	return strings.Join(all, ", ")
}

func TestScan_looksAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	live := w.machine("pool-1", w.providerID("1"))
	w.machine("lost", w.providerID("5"))
	w.ask(nil)
	w.expect(metav1.ConditionUnknown, rkev1.ScanningReason)
	request := w.request("look-scan-1")
	require.Equal(t, state.Scan, request.Operation)
	require.Equal(t, map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": token}, request.CredentialEnv)
	require.Empty(t, request.Scan)
	job := testkit.ExpectExists(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-1")})
	require.Equal(t, "look-scan", job.Spec.Template.Spec.ServiceAccountName)
	require.True(t, metav1.IsControlledBy(job, w.scan))
	require.NotContains(t, job.String(), token)
	require.NotZero(t, w.reconcile(), "a Job that runs is looked at again")

	stranger := w.found("3", "x")
	stranger.ClusterUID = "elsewhere"
	w.end("look-scan-1", w.report(w.found("1", string(live.GetUID())), w.found("2", "gone"), stranger))
	w.reconcile()
	require.Equal(t, "servers with a machine: 1, orphans: 1", w.expect(metav1.ConditionTrue, rkev1.ScannedReason))
	require.Equal(t, "2 Orphan, 3 Uncertain", w.verdicts())
	require.EqualValues(t, 1, w.scan.Status.Known)
	require.EqualValues(t, 1, w.scan.Status.Orphans)
	require.Equal(t, []string{"lost"}, w.scan.Status.MachinesNotListed)
	testkit.ExpectCondition(t, testkit.ExpectExists(t, w.client, live), rkev1.ServerExistsCondition, metav1.ConditionTrue, rkev1.ServerListedReason)
	w.nothingSecretIsLeft()
	testkit.ExpectNotFound(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-2")})

	before := w.scan.ResourceVersion
	require.Greater(t, w.reconcile().RequeueAfter, 59*time.Minute)
	require.Equal(t, before, w.scan.ResourceVersion, "what is done stays as it is")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.reconcile()
	testkit.ExpectNotFound(t, w.client, w.scan.DeepCopy())
}

func TestScan_removes(t *testing.T) {
	w := newWorld(t)
	w.ask(func(s *rkev1.ServerScanSpec) { s.Remove = true })
	young := w.found("2", "young")
	young.Created = w.clock.Now().Add(-time.Minute)
	w.end("look-scan-1", w.report(w.found("1", "gone"), young))
	w.reconcile()
	w.expect(metav1.ConditionUnknown, rkev1.RemovingReason)
	testkit.ExpectNotFound(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-2")})
	w.reconcile()
	require.Equal(t, []jobrunner.ScanTarget{{ID: "1", MachineUID: "gone"}}, w.request("look-scan-2").Scan)
	require.WithinDuration(t, w.clock.Now().Add(10*time.Minute), w.request("look-scan-2").ScanNotAfter, time.Second)
	w.reconcile()
	w.expect(metav1.ConditionUnknown, rkev1.RemovingReason)

	done := w.report(w.found("1", "gone"), young)
	done.Scan.Removed = []string{"1"}
	w.end("look-scan-2", done)
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	require.Equal(t, "1 Removed, 2 Young", w.verdicts())
	require.Zero(t, w.scan.Status.Orphans)
	w.nothingSecretIsLeft()
}

// What was removed before something went wrong is told, and what is left still counts.
func TestScan_removesWhatItCan(t *testing.T) {
	w := newWorld(t)
	w.ask(func(s *rkev1.ServerScanSpec) { s.Remove = true })
	both := w.report(w.found("1", "gone"), w.found("2", "gone-too"))
	w.end("look-scan-1", both)
	w.reconcile()
	w.reconcile()
	require.Len(t, w.request("look-scan-2").Scan, 2)
	half := state.Result{Outcome: state.Failed, Class: rkev1.ClassUnauthorized, Reason: "RemoveFailed", Message: "pool-1: 403 locked", Scan: both.Scan}
	half.Scan.Removed = []string{"2"}
	w.end("look-scan-2", half)
	w.reconcile()
	message := w.expect(metav1.ConditionFalse, rkev1.ScanJobReason)
	require.Contains(t, message, "not all orphans were removed")
	require.Contains(t, message, "pool-1: 403 locked")
	require.Equal(t, "1 Orphan, 2 Removed", w.verdicts())
	require.EqualValues(t, 1, w.scan.Status.Orphans)
	w.nothingSecretIsLeft()
}

// Between the list and the removal a machine may come back, from a backup.
func TestScan_readsTheAPIBeforeItRemoves(t *testing.T) {
	w := newWorld(t)
	w.ask(func(s *rkev1.ServerScanSpec) { s.Remove = true })
	w.end("look-scan-1", w.report(w.found("1", "gone")))
	w.reconcile()
	w.expect(metav1.ConditionUnknown, rkev1.RemovingReason)
	w.machine("restored", w.providerID("1"))
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	require.EqualValues(t, 1, w.scan.Status.Known)
	require.Empty(t, w.verdicts())
	testkit.ExpectNotFound(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-2")})
	w.nothingSecretIsLeft()
}

func TestScan_fails(t *testing.T) {
	w := newWorld(t)
	w.ask(func(s *rkev1.ServerScanSpec) { s.Remove = true })
	w.end("look-scan-1", state.Result{Outcome: state.Failed, Class: rkev1.ClassUnauthorized, Reason: "LookupFailed", Message: "401 Unable to authenticate you"})
	w.reconcile()
	message := w.expect(metav1.ConditionFalse, rkev1.ScanJobReason)
	require.Contains(t, message, "Unauthorized, LookupFailed")
	require.Contains(t, message, "Unable to authenticate you")
	require.Empty(t, w.scan.Status.Servers)
	w.nothingSecretIsLeft()
}

func TestScan_badInput(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*world, *rkev1.ServerScanSpec)
		reason, message string
	}{
		"a driver whose servers have no tags": {func(_ *world, s *rkev1.ServerScanSpec) { s.Driver = "exoscale" }, rkev1.ScanUnsupportedReason, "docs/orphans.md"},
		"a driver that nobody knows":          {func(_ *world, s *rkev1.ServerScanSpec) { s.Driver = "acme" }, rkev1.ScanUnsupportedReason, "docs/orphans.md"},
		"a driver that is not active":         {func(_ *world, s *rkev1.ServerScanSpec) { s.Driver = "vmwarevsphere" }, rkev1.ScanUnsupportedReason, "not active"},
		"no such credential":                  {func(_ *world, s *rkev1.ServerScanSpec) { s.CloudCredentialSecretName = "none" }, rkev1.CredentialMissingReason, "none"},
		"a credential without a key": {func(w *world, s *rkev1.ServerScanSpec) {
			require.NoError(w, w.client.Create(w.Context(), &corev1.Secret{ObjectMeta: w.meta("empty")}))
			s.CloudCredentialSecretName = "empty"
		}, rkev1.CredentialInvalidReason, "accessToken"},
		"another namespace's, not shared": {func(w *world, s *rkev1.ServerScanSpec) {
			s.CloudCredentialSecretName = newWorld(w.T).namespace + ":cred"
		}, rkev1.CredentialNotSharedReason, "may be used here"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask(func(s *rkev1.ServerScanSpec) { c.change(w, s) })
			require.Contains(t, w.expect(metav1.ConditionFalse, c.reason), c.message)
			require.NotNil(t, w.scan.Status.CompletionTime)
			w.nothingSecretIsLeft()
			var jobs batchv1.JobList
			require.NoError(t, w.client.List(t.Context(), &jobs, client.InNamespace(w.namespace)))
			require.Empty(t, jobs.Items)
		})
	}
}

func TestScan_sharedCredential(t *testing.T) {
	w := newWorld(t)
	other := newWorld(t)
	other.secret("shared", map[string]string{rkev1.AllowedNamespacesAnnotation: w.namespace})
	w.ask(func(s *rkev1.ServerScanSpec) { s.CloudCredentialSecretName = other.namespace + ":shared" })
	require.Equal(t, token, w.request("look-scan-1").CredentialEnv["DIGITALOCEAN_ACCESS_TOKEN"])
}

// A manager that dies anywhere goes on where it was: each step can be done again.
func TestScan_goesOnAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.ask(func(s *rkev1.ServerScanSpec) { s.Remove = true })
	w.scan.Status = rkev1.ServerScanStatus{}
	require.NoError(t, w.client.Status().Update(t.Context(), w.scan), "the status was never written")
	w.reconcile()
	w.end("look-scan-1", w.report(w.found("1", "gone")))
	w.reconcile()
	w.reconcile()
	job := testkit.ExpectExists(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-2")})
	job.Finalizers = nil
	require.NoError(t, w.client.Update(t.Context(), job))
	require.NoError(t, w.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.reconcile()
	testkit.ExpectExists(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-2")})
}

// What held the credential does not stay because the API server could not be reached for a moment.
func TestScan_cleansUpAgain(t *testing.T) {
	w := newWorld(t)
	w.ask(nil)
	w.end("look-scan-1", w.report())
	_, err := w.manager(w.refuse("delete ")).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.scan)})
	require.ErrorContains(t, err, "connection refused")
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	w.nothingSecretIsLeft()
}

// Who may only make ServerScans chooses by their names what else they touch: never what is somebody else's.
func TestScan_namesThatAreTaken(t *testing.T) {
	for name, taken := range map[string]client.Object{
		"result":          &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "look-scan-result"}},
		"request":         &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "look-scan-1"}},
		"service account": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "look-scan"}},
		"role":            &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "look-scan"}},
		"role binding": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "look-scan"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "other"}},
		"job": jobrunner.Job(jobrunner.Task{Base: "look", Settings: jobrunner.Settings{Image: "other"}, Request: jobrunner.Request{Operation: state.Scan, Attempt: 1}}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			taken.SetNamespace(w.namespace)
			require.NoError(t, w.client.Create(t.Context(), taken))
			w.ask(nil)
			require.Contains(t, w.expect(metav1.ConditionFalse, rkev1.NameTakenReason), taken.GetName()+" does not belong to this ServerScan")
			require.NotNil(t, w.scan.Status.CompletionTime)
			before := taken.GetResourceVersion()
			testkit.ExpectExists(t, w.client, taken)
			require.Equal(t, before, taken.GetResourceVersion(), "it is as it was")
			require.NoError(t, w.client.Delete(t.Context(), taken))
			w.nothingSecretIsLeft()
			testkit.ExpectNotFound(t, w.client, &corev1.Secret{ObjectMeta: w.meta("look-scan-result")})
		})
	}
}

// What took the place of something of ours meanwhile stays too.
func TestScan_cleansUpItsOwnOnly(t *testing.T) {
	w := newWorld(t)
	w.ask(nil)
	w.end("look-scan-1", w.report())
	require.NoError(t, w.client.Delete(t.Context(), &rbacv1.Role{ObjectMeta: w.meta("look-scan")}))
	other := &rbacv1.Role{ObjectMeta: w.meta("look-scan")}
	require.NoError(t, w.client.Create(t.Context(), other))
	w.reconcile()
	w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	testkit.ExpectExists(t, w.client, other)
	require.NoError(t, w.client.Delete(t.Context(), other))
	w.nothingSecretIsLeft()
}

// One that was deleted and made again under its name waits for the garbage collector.
func TestScan_leftoversOfItsPredecessor(t *testing.T) {
	w := newWorld(t)
	earlier := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Name: "look", UID: "earlier"}}
	left := &corev1.Secret{ObjectMeta: w.meta("look-scan-result")}
	left.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(earlier, rkev1.GroupVersion.WithKind("ServerScan"))}
	require.NoError(t, w.client.Create(t.Context(), left))
	w.ask(nil)
	require.Contains(t, w.expect(metav1.ConditionUnknown, rkev1.NameTakenReason), "is deleted")
	require.NoError(t, w.client.Delete(t.Context(), left))
	require.NotZero(t, w.reconcile())
	w.expect(metav1.ConditionUnknown, rkev1.ScanningReason)
	testkit.ExpectExists(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-1")})
}

// A Job that could not be made at once is made later, and is not missed as one that was deleted.
func TestScan_beginsAgain(t *testing.T) {
	w := newWorld(t)
	w.scan = &rkev1.ServerScan{ObjectMeta: w.meta("look"), Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred"}}
	require.NoError(t, w.client.Create(t.Context(), w.scan))
	_, err := w.manager(w.refuse("create ")).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.scan)})
	require.ErrorContains(t, err, "connection refused")
	w.reconcile()
	w.expect(metav1.ConditionUnknown, rkev1.ScanningReason)
	testkit.ExpectExists(t, w.client, &batchv1.Job{ObjectMeta: w.meta("look-scan-1")})
}

func TestScan_isDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.ask(nil)
	w.scan.Spec.Remove = true
	require.ErrorContains(t, w.client.Update(t.Context(), w.scan), "make another one")
}

// docs/performance.md has the number.
func TestScan_costs(t *testing.T) {
	w := newWorld(t)
	count := 0
	w.reconciler = w.manager(func(_ string, do func() error) error {
		count++
		return do()
	})
	w.ask(nil)
	w.reconcile()
	w.end("look-scan-1", w.report(w.found("1", "gone")))
	w.reconcile()
	require.Equal(t, 12, count, "to find out, to tell and to clean up")
	w.reconcile()
	require.Equal(t, 12, count, "nothing while it stays")
}

// A server that vanished before its first listing is gone after two scans with the credential that
// created it.
func TestScan_neverListed(t *testing.T) {
	w := newWorld(t)
	round := 0
	scan := func(servers ...state.ScannedServer) {
		t.Helper()
		round++
		name := fmt.Sprintf("n%d", round)
		w.scan = &rkev1.ServerScan{ObjectMeta: w.meta(name), Spec: rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "cred"}}
		require.NoError(t, w.client.Create(t.Context(), w.scan))
		w.reconcile()
		w.end(name+"-scan-1", w.report(servers...))
		w.reconcile()
		w.expect(metav1.ConditionTrue, rkev1.ScannedReason)
	}
	machines := map[string]*unstructured.Unstructured{}
	made := w.clock.Now().Truncate(time.Second)
	for _, name := range []string{"gone", "young", "moved", "rotated", "taken-over"} {
		m := w.machine(name, w.providerID(name))
		machines[name] = m
		since := made
		if name == "young" {
			since = made.Add(8 * time.Minute)
		}
		require.NoError(t, unstructured.SetNestedSlice(m.Object, []any{map[string]any{"type": rkev1.ReadyCondition, "status": "True", "reason": rkev1.ReadyReason,
			"message": "", "lastTransitionTime": since.UTC().Format(time.RFC3339)}}, "status", "conditions"))
		require.NoError(t, w.client.Status().Update(t.Context(), m))
		if name == "taken-over" {
			continue // another product created its server, without Drover's tags
		}
		used := token
		if name == "rotated" {
			used = "another"
		}
		kept, err := jobrunner.CredentialSecret(jobrunner.Task{Owner: metav1.NewControllerRef(m, m.GroupVersionKind()),
			Credential: state.Credential{Name: "cred", Env: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": used}},
			Request:    jobrunner.Request{Machine: jobrunner.MachineRef{Namespace: w.namespace, Name: name}, Namespace: w.namespace}})
		require.NoError(t, err)
		testkit.ExpectApplied(t, w.client, kept)
	}
	expect := func(reason string, names ...string) {
		t.Helper()
		status := map[string]metav1.ConditionStatus{rkev1.ServerNotSeenReason: metav1.ConditionUnknown, rkev1.ServerNotListedReason: metav1.ConditionFalse}[reason]
		for _, name := range names {
			testkit.ExpectCondition(t, testkit.ExpectExists(t, w.client, machines[name]), rkev1.ServerExistsCondition, status, reason)
		}
	}
	// Its user has set another provider ID, and the server has the tag of the machine.
	moved := w.found("elsewhere", string(machines["moved"].GetUID()))

	w.clock.SetTime(made.Add(time.Minute))
	scan(moved)
	expect(rkev1.ServerNotSeenReason, "gone", "young", "moved", "rotated", "taken-over")
	message := testkit.ExpectCondition(t, machines["gone"], rkev1.ServerExistsCondition, metav1.ConditionUnknown, rkev1.ServerNotSeenReason).Message
	require.Equal(t, "asked at "+made.Add(time.Minute).UTC().Format(time.RFC3339)+"; the cloud did not list the server: it may be gone, or it may have no tag of Drover. Check the cloud, or ask again: drover gc -n "+w.namespace, message)

	w.clock.SetTime(made.Add(10 * time.Minute))
	scan(moved)
	expect(rkev1.ServerNotSeenReason, "gone", "young", "moved", "rotated", "taken-over")

	w.clock.SetTime(made.Add(11 * time.Minute))
	scan(moved)
	expect(rkev1.ServerNotListedReason, "gone")
	testkit.ExpectCondition(t, machines["gone"], rkev1.ReadyCondition, metav1.ConditionFalse, rkev1.ServerNotListedReason)
	expect(rkev1.ServerNotSeenReason, "young", "moved", "rotated", "taken-over")

	w.clock.SetTime(made.Add(20 * time.Minute))
	scan(moved)
	expect(rkev1.ServerNotListedReason, "gone", "young")
	expect(rkev1.ServerNotSeenReason, "moved", "rotated", "taken-over")
}

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
