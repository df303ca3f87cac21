package machine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := allCRDs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCRDs(crds...))
}

func allCRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := capi.CRDs()
	if err != nil {
		return nil, err
	}
	own, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	crds = append(crds, own...)
	for _, name := range []string{"digitalocean", "generic", "google", "acme", "unsure"} {
		fields, err := fieldsOf(name)
		if err != nil {
			return nil, err
		}
		_, _, kind, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
		if err != nil {
			return nil, err
		}
		crds = append(crds, kind)
	}
	return crds, nil
}

// fieldsOf are the real driver's; acme is an external one, and unsure one with user data.
func fieldsOf(name string) ([]crdgen.Field, error) {
	if name == "acme" {
		return crdgen.FieldsOf(name, []crdgen.Flag{
			{Name: "acme-region", Type: crdgen.String}, {Name: "acme-token", Type: crdgen.String, EnvVar: "ACME_TOKEN"},
			{Name: "acme-key-text", Type: crdgen.String},
		}, crdgen.Rules{PrivateCredentialFields: []string{"token", "keyText"}, OptionalCredentialFields: []string{"keyText"}})
	}
	if name == "unsure" {
		return crdgen.FieldsOf(name, []crdgen.Flag{{Name: "unsure-user-data", Type: crdgen.String}}, crdgen.Rules{})
	}
	flags, ok := driver.Builtin(name)
	if !ok {
		return nil, fmt.Errorf("no driver %s", name)
	}
	for _, nd := range driver.Predefined() {
		if nd.DriverName() == name {
			rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
			if err != nil {
				return nil, err
			}
			return crdgen.FieldsOf(name, flags, rules)
		}
	}
	return crdgen.FieldsOf(name, flags, crdgen.Rules{})
}

// start is when the fake clock begins: later than the objects of the API server are made.
var start = time.Now().Add(time.Hour).Truncate(time.Second)

// world is one namespace with a cluster in it.
type world struct {
	*testing.T
	client    client.WithWatch
	namespace string
	clock     *clocktesting.FakePassiveClock
	recorder  *events.FakeRecorder
	nodes     machine.NodeFinder
	filter    string
	settings  jobrunner.Settings
	trusted   []string
	// limit is how many Jobs may run at once; any number when 0.
	limit int
	// cache is the manager's; the client, without one.
	cache   client.Reader
	counted sync.Mutex
	writes  map[string]int
	// fault decides what becomes of a write; all go well without one.
	fault   func(do func() error) error
	cluster *clusterv1.Cluster
}

func newScheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme,
		clusterv1.AddToScheme, managementv3.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	return scheme
}

// shared is the client of all worlds: each of its own would ask anew which kinds there are.
var shared struct {
	sync.Once
	client.WithWatch
}

func newWorld(t *testing.T) *world {
	t.Helper()
	shared.Do(func() { shared.WithWatch = testkit.Client(t, newScheme(t)) })
	w := &world{T: t, client: shared.WithWatch, namespace: testkit.Namespace(t),
		clock: clocktesting.NewFakePassiveClock(start), recorder: events.NewFakeRecorder(100), writes: map[string]int{},
		settings: jobrunner.Settings{Image: "registry.test/machine:v1"}}
	w.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c1"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"}}}
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	testkit.ExpectApplied(t, w.client, w.cluster)
	for _, name := range []string{"digitalocean", "google"} {
		w.nodeDriver(name, "local://", nil)
	}
	w.secret("bootstrap", "cluster.x-k8s.io/secret", map[string]string{"value": "#!/bin/sh\necho hello\n"})
	w.secret("cred", "Opaque", map[string]string{"accessToken": "marker-secret-token"})
	return w
}

// nodeDriver makes a NodeDriver and takes it away again, for it has no namespace.
func (w *world) nodeDriver(name, url string, change func(*managementv3.NodeDriver)) *managementv3.NodeDriver {
	w.Helper()
	nd := &managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: managementv3.NodeDriverSpec{URL: url, Active: true, InsecureSkipChecksum: true}}
	if change != nil {
		change(nd)
	}
	testkit.ExpectApplied(w, w.client, nd)
	w.Cleanup(func() { _ = w.client.Delete(context.WithoutCancel(w.Context()), nd) })
	return nd
}

// external makes the NodeDriver of an external driver that was read.
func (w *world) external(name, url, digest string) *managementv3.NodeDriver {
	w.Helper()
	nd := w.nodeDriver(name, url, nil)
	nd.Status.Digest, nd.Status.AppliedURL = digest, url
	require.NoError(w, w.client.Status().Update(w.Context(), nd))
	return nd
}

func (w *world) secret(name, kind string, data map[string]string) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Type: corev1.SecretType(kind), StringData: data}
	testkit.ExpectApplied(w, w.client, secret)
	return secret
}

func (w *world) update(obj client.Object) {
	w.Helper()
	require.NoError(w, w.client.Update(w.Context(), obj))
}

func (w *world) delete(obj client.Object) {
	w.Helper()
	require.NoError(w, w.client.Delete(w.Context(), obj))
}

// counting is a client whose writes are counted by verb and kind, and which the fault of this world has.
func (w *world) counting() client.WithWatch {
	return testkit.Writes(w.client, func(write string, do func() error) error {
		w.counted.Lock()
		w.writes[write]++
		fault := w.fault
		w.counted.Unlock()
		if fault == nil {
			return do()
		}
		return fault(do)
	})
}

func (w *world) wrote() int {
	w.counted.Lock()
	defer w.counted.Unlock()
	sum := 0
	for _, n := range w.writes {
		sum += n
	}
	return sum
}

// delete deletes an object; of the machine itself its CAPI Machine first, as Cluster API does, which then waits for the machine.
func (s *subject) delete(obj client.Object) {
	s.Helper()
	if obj == client.Object(s.obj) {
		s.deleteOwner()
	}
	s.world.delete(obj)
}

func (s *subject) deleteOwner() {
	s.Helper()
	err := s.client.Get(s.Context(), client.ObjectKeyFromObject(s.capi), s.capi)
	if apierrors.IsNotFound(err) || !s.capi.DeletionTimestamp.IsZero() {
		return
	}
	require.NoError(s, err)
	s.capi.Finalizers = []string{clusterv1.MachineFinalizer}
	s.update(s.capi)
	s.world.delete(s.capi)
}

// subject is one machine and who reconciles it.
type subject struct {
	*world
	name       string
	kind       machine.Kind
	reconciler reconcile.Reconciler
	capi       *clusterv1.Machine
	obj        *unstructured.Unstructured
}

// manager is one that knows nothing of an earlier one.
func (w *world) manager() *machine.Controller {
	if w.cache == nil {
		w.cache = w.client
	}
	return machine.New(machine.Options{
		Client: w.counting(), Cache: w.cache, Live: w.client, Recorder: w.recorder, Clock: w.clock, Nodes: w.nodes, WatchFilter: w.filter,
		Settings: w.settings, TrustedCredentialNamespaces: w.trusted, MaxConcurrentJobs: w.limit,
	})
}

// machine makes a CAPI Machine and its infrastructure, as Cluster API does.
func (w *world) machine(driverName, name string, spec map[string]any) *subject {
	w.Helper()
	fields, err := fieldsOf(driverName)
	require.NoError(w, err)
	kind := crdgen.KindsOf(driverName).Machine
	s := &subject{world: w, name: name}
	s.kind = machine.Kind{GVK: rkev1.MachineGroupVersion.WithKind(kind), Driver: driverName, Fields: fields}
	s.reconciler = w.manager().For(s.kind)

	s.capi = w.capiMachine(kind, name)
	s.obj = &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	s.obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind))
	s.obj.SetNamespace(w.namespace)
	s.obj.SetName(name)
	s.obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c1"})
	s.obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.capi, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(w, w.client.Create(w.Context(), s.obj))
	return s
}

func droplet() map[string]any {
	return map[string]any{"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": "cred"}}
}

// reconcile calls Reconcile and reads the machine anew; its status is returned.
func (s *subject) reconcile() rkev1.RKEMachineStatus {
	s.Helper()
	testkit.ExpectReconciled(s, s.reconciler, s.obj)
	return s.read()
}

func (s *subject) read() rkev1.RKEMachineStatus {
	s.Helper()
	require.NoError(s, s.client.Get(s.Context(), client.ObjectKeyFromObject(s.obj), s.obj))
	raw, err := json.Marshal(s.obj.Object["status"])
	require.NoError(s, err)
	var status rkev1.RKEMachineStatus
	require.NoError(s, json.Unmarshal(raw, &status))
	return status
}

// expect expects a condition of the machine.
func (s *subject) expect(condition string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.Helper()
	c := testkit.ExpectCondition(s, s.obj, condition, status, reason)
	require.Equal(s, s.obj.GetGeneration(), c.ObservedGeneration)
	return c
}

func (s *subject) job(operation state.Operation, attempt int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.JobName(s.name, operation, attempt)}}
}

func (s *subject) stateSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.StateSecretName(s.name)}}
}

// lastCredential is where the credential of the last Job is kept.
func (s *subject) lastCredential() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.CredentialSecretName(s.name)}}
}

func (s *subject) requestOf(operation state.Operation, attempt int32) jobrunner.Request {
	s.Helper()
	secret := testkit.ExpectExists(s, s.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: jobrunner.JobName(s.name, operation, attempt)}})
	var request jobrunner.Request
	require.NoError(s, json.Unmarshal(secret.Data[jobrunner.RequestKey], &request))
	return request
}

// write plays the pod: it writes documents into the state Secret.
func (s *subject) write(documents map[string]any) {
	s.Helper()
	secret := testkit.ExpectExists(s, s.client, s.stateSecret())
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, document := range documents {
		if text, ok := document.(string); ok {
			secret.Data[key] = []byte(text)
			continue
		}
		raw, err := json.Marshal(document)
		require.NoError(s, err)
		secret.Data[key] = raw
	}
	s.update(secret)
}

// end plays the Job controller: the Job has ended.
func (s *subject) end(operation state.Operation, attempt int32, kind batchv1.JobConditionType, reason string) {
	s.Helper()
	testkit.EndJob(s, s.client, s.job(operation, attempt), kind == batchv1.JobComplete, reason, s.clock.Now())
}

// succeed plays a create that went well.
func (s *subject) succeed(attempt int32) {
	s.Helper()
	now := s.clock.Now()
	s.write(map[string]any{
		state.JournalKey:         state.Journal{Operation: state.Create, Attempt: attempt, Phase: state.PhaseBootstrapped, InstanceName: s.name},
		state.ExtractedConfigKey: "a tar.gz",
		state.ServerKey: state.Server{InstanceID: "123", ProviderID: "digitalocean://123",
			Addresses: []state.Address{{Type: "ExternalIP", Address: "198.18.0.7"}}},
		state.ResultKey: state.Result{Operation: state.Create, Attempt: attempt, Outcome: state.Succeeded, StartTime: now, EndTime: now.Add(time.Minute)},
	})
	s.end(state.Create, attempt, batchv1.JobComplete, "CompletionsReached")
}

// fail plays an operation that failed.
func (s *subject) fail(operation state.Operation, attempt int32, class, message string, mayExist bool) {
	s.Helper()
	now := s.clock.Now()
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: operation, Attempt: attempt, Phase: state.PhaseIntent, InstanceName: s.name},
		state.LogKey:     "the log of the driver\n",
		state.ResultKey: state.Result{Operation: operation, Attempt: attempt, Outcome: state.Failed, Class: class, Reason: "DriverFailed",
			Message: message, ServerMayExist: mayExist, StartTime: now, EndTime: now},
	})
	s.end(operation, attempt, batchv1.JobFailed, "BackoffLimitExceeded")
}

// notCleaned plays a remove that could not clean the host.
func (s *subject) notCleaned(attempt int32, class string) {
	s.Helper()
	now := s.clock.Now()
	s.write(map[string]any{state.ResultKey: state.Result{Operation: state.Remove, Attempt: attempt, Outcome: state.Failed, Class: class, Reason: rkev1.HostNotCleanedReason,
		Message: "the host keeps what this machine brought there", ServerMayExist: true, StartTime: now, EndTime: now}})
	s.end(state.Remove, attempt, batchv1.JobFailed, "BackoffLimitExceeded")
}

// removed plays a remove that went well.
func (s *subject) removed(attempt int32) {
	s.Helper()
	s.write(map[string]any{
		state.JournalKey: state.Journal{Operation: state.Remove, Attempt: attempt, Phase: state.PhaseGone},
		state.ResultKey:  state.Result{Operation: state.Remove, Attempt: attempt, Outcome: state.Succeeded, EndTime: s.clock.Now()},
	})
	s.end(state.Remove, attempt, batchv1.JobComplete, "CompletionsReached")
}

// ready brings the machine up.
func (s *subject) ready() {
	s.Helper()
	s.reconcile()
	s.succeed(1)
	s.reconcile()
	s.expect(rkev1.ReadyCondition, metav1.ConditionTrue, "")
}

// begun is a machine whose first Job was made, made is one that is ready.
func begun(t *testing.T) *subject {
	t.Helper()
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.reconcile()
	return s
}

func made(t *testing.T) *subject {
	t.Helper()
	s := newWorld(t).machine("digitalocean", "m", droplet())
	s.ready()
	return s
}

// remove deletes the machine and lets that be seen.
func (s *subject) remove() {
	s.Helper()
	s.delete(s.obj)
	s.reconcile()
}

// vanish takes the machine away, whatever keeps it.
func (s *subject) vanish() {
	s.Helper()
	free := s.obj.DeepCopy()
	require.NoError(s, s.client.Patch(s.Context(), free, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	s.world.delete(free)
}

// goes lets the machine go.
func (s *subject) goes() {
	s.Helper()
	testkit.ExpectReconciled(s, s.reconciler, s.obj)
	s.gone()
}

func (s *subject) gone() {
	s.Helper()
	testkit.ExpectNotFound(s, s.client, s.obj.DeepCopy())
}

func (w *world) events() []string {
	var got []string
	for {
		select {
		case event := <-w.recorder.Events:
			got = append(got, event)
		default:
			return got
		}
	}
}

// dropJobFinalizers plays the garbage collector.
func (s *subject) dropJobFinalizers() {
	s.Helper()
	jobs := &batchv1.JobList{}
	require.NoError(s, s.client.List(s.Context(), jobs, client.InNamespace(s.namespace)))
	for i := range jobs.Items {
		if jobs.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		jobs.Items[i].Finalizers = nil
		s.update(&jobs.Items[i])
	}
}

func (s *subject) annotate(key, value string) {
	s.Helper()
	s.read()
	annotations := s.obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	s.obj.SetAnnotations(annotations)
	s.update(s.obj)
}

// setKey changes one key of a Secret that is there.
func (w *world) setKey(name, key, value string) {
	w.Helper()
	secret := testkit.ExpectExists(w, w.client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
	secret.StringData = map[string]string{key: value}
	w.update(secret)
}

func (w *world) capiMachine(kind, name string) *clusterv1.Machine {
	w.Helper()
	before := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}} // see deleteOwner
	require.NoError(w, client.IgnoreNotFound(w.client.Patch(w.Context(), before, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
		Spec: clusterv1.MachineSpec{ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke-machine.cattle.io", Kind: kind, Name: name}}}
	testkit.ExpectApplied(w, w.client, m)
	return m
}

// digitalocean is the built-in driver.
func digitalocean() *managementv3.NodeDriver {
	return &managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"},
		Spec: managementv3.NodeDriverSpec{URL: "local://", Active: true}}
}
