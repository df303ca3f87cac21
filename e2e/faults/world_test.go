package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

// lab is what all runs share.
type lab struct {
	config *rest.Config
	http   *http.Client
	mapper meta.RESTMapper
	scheme *runtime.Scheme
	fields []crdgen.Field
	// seen is what a run without faults does.
	seen record
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return labOn(t, testkit.Config(t))
}

func labOn(t *testing.T, config *rest.Config) *lab {
	t.Helper()
	l := &lab{config: config, scheme: runtime.NewScheme()}
	// The runs have the API server to themselves.
	l.config.QPS, l.config.Burst = -1, 0
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme,
		clusterv1.AddToScheme, managementv3.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		require.NoError(t, add(l.scheme))
	}
	var err error
	l.http, err = rest.HTTPClientFor(l.config)
	require.NoError(t, err)
	l.mapper, err = apiutil.NewDynamicRESTMapper(l.config, l.http)
	require.NoError(t, err)
	l.fields, err = fields()
	require.NoError(t, err)
	testkit.ExpectApplied(t, l.client(t, l.http.Transport), &managementv3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: managementv3.NodeDriverSpec{URL: "local://", Active: true},
	})
	return l
}

// newNamespace makes one that is not deleted: nothing but the server's own end would do that without its controllers.
func (w *world) newNamespace() string {
	w.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(w, w.admin.Create(w.Context(), made))
	return made.Name
}

func (l *lab) client(t *testing.T, through http.RoundTripper) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(l.config, client.Options{Scheme: l.scheme, Mapper: l.mapper, HTTPClient: &http.Client{Transport: through}})
	require.NoError(t, err)
	return c
}

// world is one run: a machine in a namespace of its own, a manager that may die, pods that may die.
type world struct {
	*testing.T
	lab         *lab
	token       string
	namespace   string
	admin       client.WithWatch
	clock       *clocktesting.FakePassiveClock
	managerGate *gate
	podGate     *gate
	reconciler  reconcile.Reconciler
	// setting is the world itself; owner is the CAPI Machine of obj.
	setting setting
	owner   *clusterv1.Machine
	obj     *unstructured.Unstructured
	uids    []string
	// cancelPod ends the pod that runs, as the kubelet does when its Job is deleted.
	cancelPod   func()
	log         []string
	rules       []string
	retries     int
	secretToken string
	hopeless    bool
	began       time.Time
	// classes are those of the attempts that failed.
	classes map[string]string
	// cache is the manager's; touches counts what others have changed.
	cache    *lagging
	refusing *atomic.Int32
	touches  int
	// nextDisk is what the next pod gets, used what a pod needed.
	nextDisk *disk
	used     disk
	// armed are the cloud's rules, struck the troubles that came to pass.
	armed  map[trouble]string
	struck map[trouble]bool
	// kept is the server whose record was in the state; spared are those of another machine that the state was made to name.
	kept   string
	spared map[string]bool
	// stateless: the state is lost, and nobody can know its server; lost: a fault took the server away.
	stateless, lost bool
	// held: the machine was seen with the manager's finalizer.
	held bool
}

const (
	machineName     = "m"
	bootstrapMarker = "marker-join-token"
)

func newWorld(t *testing.T, l *lab, token token, in setting) *world {
	t.Helper()
	w := &world{T: t, lab: l, setting: in, token: token.name, secretToken: token.secret, began: time.Now(), admin: l.client(t, patient(l.http.Transport)), classes: map[string]string{},
		clock: clocktesting.NewFakePassiveClock(time.Now().Add(time.Minute)), refusing: &atomic.Int32{}, armed: map[trouble]string{}, struck: map[trouble]bool{}, spared: map[string]bool{}}
	w.namespace = w.newNamespace()
	w.managerGate, w.podGate = &gate{next: l.http.Transport, refusing: w.refusing}, &gate{next: l.http.Transport, refusing: w.refusing}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "c1"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: "c1"},
	}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	testkit.ExpectApplied(t, w.admin, cluster,
		w.secret("bootstrap", "value", "#cloud-config\nruncmd: ['echo größe ', '"+bootstrapMarker+"']\n"), w.secret("cred", "accessToken", token.secret))
	w.makeMachine("")
	w.startManager()
	return w
}

// makeMachine makes a CAPI Machine and the machine that it owns, anew or from a backup with what their spec had of a server.
func (w *world) makeMachine(providerID string) {
	w.Helper()
	kind := crdgen.KindsOf(driverName).Machine
	w.owner = &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: machineName, Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: kind, Name: machineName},
		},
	}
	spec := map[string]any{"region": "nyc3", "common": map[string]any{"cloudCredentialSecretName": "cred"}}
	if providerID != "" {
		w.owner.Spec.ProviderID, spec["providerID"] = providerID, providerID
	}
	err := w.admin.Create(w.Context(), w.owner)
	if apierrors.IsAlreadyExists(err) { // the garbage collector has taken the other one alone
		err = w.admin.Get(w.Context(), client.ObjectKeyFromObject(w.owner), w.owner)
	}
	require.NoError(w, err)
	w.obj = &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	w.obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(kind))
	w.obj.SetNamespace(w.namespace)
	w.obj.SetName(machineName)
	w.obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c1"})
	w.obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w.owner, clusterv1.GroupVersion.WithKind("Machine"))})
	require.NoError(w, w.admin.Create(w.Context(), w.obj))
	w.uids, w.held = append(w.uids, string(w.obj.GetUID())), false
}

func (w *world) secret(name, key, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, StringData: map[string]string{key: value}}
}

// startManager is a manager that knows nothing of an earlier one. One that is struck dead ends there: its goroutine goes, and
// nothing that is still run of it reaches the API server, which is all that a manager can reach.
func (w *world) startManager() {
	w.Helper()
	c := w.lab.client(w.T, &mortal{gate: w.managerGate, end: goruntime.Goexit})
	w.cache = &lagging{Reader: c, scheme: w.lab.scheme, habit: habits[w.setting.habit]}
	w.reconciler = machine.New(machine.Options{
		Client: c, Cache: w.cache, Live: c, Recorder: &events.FakeRecorder{}, Clock: w.clock, Management: w.namespace,
		Settings: jobrunner.Settings{Image: "registry.test/machine:v1", SSHTimeout: time.Second},
	}).For(machine.Kind{GVK: w.obj.GroupVersionKind(), Driver: driverName, Fields: w.lab.fields})
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, time.Since(w.began).Round(time.Millisecond).String()+" "+fmt.Sprintf(format, args...))
}

// reconcile lets the manager look at the machine once. One that dies is replaced.
func (w *world) reconcile() time.Duration {
	w.Helper()
	var result reconcile.Result
	var err error
	died := true
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = w.reconciler.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.obj)})
		died = false
	}()
	<-done
	w.cache.reconciled()
	if died {
		w.say("the manager died")
		w.startManager()
		return 0
	}
	if err != nil {
		w.say("reconcile: %v", err)
		return time.Second
	}
	return result.RequeueAfter
}

// turn is one look of the manager and all pods that it leads to; it tells whether the machine is still there.
func (w *world) turn() bool {
	w.Helper()
	after := w.reconcile()
	played := w.playJobs()
	if !w.read() {
		return false
	}
	if !played && after > 0 {
		w.clock.SetTime(w.clock.Now().Add(after))
	}
	return true
}

func (w *world) read() bool {
	w.Helper()
	err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(w.obj), w.obj)
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(w, err)
	w.held = w.held || slices.Contains(w.obj.GetFinalizers(), rkev1.MachineFinalizer)
	status := w.status()
	if last := status.LastAttempt; last != nil && last.Outcome == string(state.Failed) {
		w.classes[last.Class] = last.Message
	}
	return true
}

func (w *world) status() rkev1.RKEMachineStatus {
	w.Helper()
	raw, err := json.Marshal(w.obj.Object["status"])
	require.NoError(w, err)
	var status rkev1.RKEMachineStatus
	require.NoError(w, json.Unmarshal(raw, &status))
	return status
}

func (w *world) condition(kind string) metav1.Condition {
	w.Helper()
	status := w.status()
	if found := meta.FindStatusCondition(status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// retry is what the messages tell the user to do when the cause is gone.
func (w *world) retry() {
	w.Helper()
	w.retries++
	w.annotate(rkev1.RetryAnnotation, fmt.Sprint(w.retries))
}

func (w *world) annotate(name, value string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), w.obj, client.RawPatch("application/merge-patch+json", []byte(patch)))))
}

func (w *world) deleteMachine() {
	w.Helper()
	require.NoError(w, client.IgnoreNotFound(w.admin.Delete(context.WithoutCancel(w.Context()), w.obj.DeepCopy())))
}
