package nodedriver_test

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/controllers/nodedriver"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	crds, err := charts.CRDs()
	capiCRDs, capiErr := capi.CRDs()
	if err := errors.Join(err, capiErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCRDs(append(crds, capiCRDs...)...))
}

const patience = 2 * time.Minute

// env is one NodeDriver's story on a real API server. The test plays the probe's pod and every other controller.
type env struct {
	client.Client
	t          *testing.T
	reconciler *nodedriver.Reconciler
	recorder   *events.FakeRecorder
	// fault decides what becomes of the controller's writes; all go well without one.
	fault func(do func() error) error
	now   time.Time
	nd    *v3.NodeDriver
}

func newEnv(t *testing.T, nd *v3.NodeDriver) *env {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), v3.AddToScheme(scheme), clusterv1.AddToScheme(scheme)))
	c := testkit.Client(t, scheme)
	drivers := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: driver.CacheNamespace}}
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), drivers)))
	watch, err := nodedriver.NewUserWatch(testkit.Config(t))
	require.NoError(t, err)
	e := &env{Client: c, t: t, now: time.Now(), nd: nd, recorder: events.NewFakeRecorder(100)}
	e.reconciler = nodedriver.New(nodedriver.Options{
		Client: testkit.Writes(c, e.write), Reader: c, Recorder: e.recorder, Watch: watch, Now: func() time.Time { return e.now },
		Jobs: jobrunner.Settings{Image: "drover.local/drover:test"},
	})
	require.NoError(t, c.Create(t.Context(), nd))
	return e
}

func builtin(name string) *v3.NodeDriver {
	return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v3.NodeDriverSpec{URL: "local://", Active: true}}
}

const checksum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func external(name string) *v3.NodeDriver {
	return &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v3.NodeDriverSpec{URL: "https://198.18.0.1/docker-machine-driver-" + name, Checksum: checksum, Active: true}}
}

// reconcile calls the controller once and reads the NodeDriver back.
func (e *env) reconcile() reconcile.Result {
	e.t.Helper()
	result := testkit.ExpectReconciled(e.t, e.reconciler, e.nd)
	require.NoError(e.t, client.IgnoreNotFound(e.Get(e.t.Context(), client.ObjectKeyFromObject(e.nd), e.nd)))
	return result
}

// reconcileUntilReady does what the watch of CRDs does.
func (e *env) reconcileUntilReady() {
	e.t.Helper()
	testkit.Eventually(e.t, patience, func() error {
		e.reconcile()
		for _, condition := range e.nd.Status.Conditions {
			if condition.Type == v3.ReadyCondition && condition.Status != metav1.ConditionTrue {
				return errors.New(condition.Reason + ": " + condition.Message)
			}
		}
		return nil
	})
	testkit.ExpectObserved(e.t, e.nd)
}

func (e *env) expect(condition string, status metav1.ConditionStatus, reason string) string {
	e.t.Helper()
	return testkit.ExpectCondition(e.t, e.nd, condition, status, reason).Message
}

// update changes the NodeDriver as a user would.
func (e *env) update(change func(*v3.NodeDriver)) {
	e.t.Helper()
	require.NoError(e.t, e.Get(e.t.Context(), client.ObjectKeyFromObject(e.nd), e.nd))
	change(e.nd)
	require.NoError(e.t, e.Update(e.t.Context(), e.nd))
}

func (e *env) crd(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	e.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdgen.CRDName(group, kind)}}
	return testkit.ExpectExists(e.t, e.Client, crd)
}

// machineFields are the fields that `kubectl explain <kind>.spec` shows.
func (e *env) machineFields() map[string]apiextensionsv1.JSONSchemaProps {
	e.t.Helper()
	crd := e.crd(crdgen.MachineGroup, crdgen.KindsOf(e.nd.DriverName()).Machine)
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
}

// machine makes an <X>Machine with these options.
func (e *env) machine(name string, options map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": options}}
	obj.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind(crdgen.KindsOf(e.nd.DriverName()).Machine))
	obj.SetNamespace("default")
	obj.SetName(name)
	require.NoError(e.t, e.Create(e.t.Context(), obj))
	return obj
}

// capiMachine makes a CAPI Machine that names an <X>Machine.
func (e *env) capiMachine(name string) *clusterv1.Machine {
	e.t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: clusterv1.MachineSpec{
		ClusterName: "c1", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: crdgen.MachineGroup, Kind: crdgen.KindsOf(e.nd.DriverName()).Machine, Name: name}}}
	require.NoError(e.t, e.Create(e.t.Context(), machine))
	return machine
}

// config makes an <X>Config, as somebody with Rancher's manifests does.
func (e *env) config(kind string, fields map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	obj := &unstructured.Unstructured{Object: fields}
	obj.SetAPIVersion(crdgen.ConfigGroup + "/" + crdgen.Version)
	obj.SetKind(kind)
	obj.SetNamespace("default")
	obj.SetName("written-by-somebody")
	require.NoError(e.t, e.Create(e.t.Context(), obj))
	return obj
}

func (e *env) jobs() []batchv1.Job {
	e.t.Helper()
	var list batchv1.JobList
	require.NoError(e.t, e.List(e.t.Context(), &list, client.InNamespace(driver.CacheNamespace), client.MatchingLabels{rkev1.NodeDriverLabel: e.nd.DriverName()}))
	return list.Items
}

// runningJob is the Job that has not ended.
func (e *env) runningJob() *batchv1.Job {
	e.t.Helper()
	var running []batchv1.Job
	for _, job := range e.jobs() {
		if !jobrunner.JobEnded(&job) {
			running = append(running, job)
		}
	}
	require.Len(e.t, running, 1, "one probe at a time")
	return &running[0]
}

func (e *env) request(job *batchv1.Job) jobrunner.Request {
	e.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}}
	testkit.ExpectExists(e.t, e.Client, secret)
	var request jobrunner.Request
	require.NoError(e.t, json.Unmarshal(secret.Data[jobrunner.RequestKey], &request))
	return request
}

// finish plays the pod: it writes its result and ends the Job.
func (e *env) finish(result state.Result) {
	e.t.Helper()
	job := e.runningJob()
	request := e.request(job)
	result.Operation, result.Attempt, result.StartTime, result.EndTime = state.Probe, request.Attempt, e.now, e.now
	raw, err := json.Marshal(result)
	require.NoError(e.t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.StateSecret}}
	testkit.ExpectExists(e.t, e.Client, secret)
	secret.Data = map[string][]byte{state.ResultKey: raw}
	require.NoError(e.t, e.Update(e.t.Context(), secret))
	testkit.EndJob(e.t, e.Client, job, result.Outcome == state.Succeeded, "", e.now)
}

// succeed ends the probe with these flags.
func (e *env) succeed(digest string, flags ...crdgen.Flag) {
	e.t.Helper()
	raw, err := json.Marshal(flags)
	require.NoError(e.t, err)
	e.finish(state.Result{Outcome: state.Succeeded, Probe: &state.ProbeReport{Digest: digest, Flags: raw}})
}

func (e *env) expectNoProbeLeft(job *batchv1.Job) {
	e.t.Helper()
	meta := metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name}
	testkit.ExpectNotFound(e.t, e.Client, &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta},
		&rbacv1.RoleBinding{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta})
}

// events are those since the last look.
func (e *env) events() []string {
	var got []string
	for {
		select {
		case event := <-e.recorder.Events:
			got = append(got, event)
		default:
			return got
		}
	}
}

// write lets the fault have a write.
func (e *env) write(_ string, do func() error) error {
	if e.fault == nil {
		return do()
	}
	return e.fault(do)
}

// try asks the API server what it would do with an object; nothing is kept.
func try(t *testing.T, gvk schema.GroupVersionKind, namespace string, spec map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(gvk)
	obj.SetNamespace(namespace)
	obj.SetName("tried")
	err := testkit.Client(t, runtime.NewScheme()).Create(t.Context(), obj, client.DryRunAll, client.FieldValidation("Strict"))
	return obj, err
}

func TestServer_rulesOfANodeDriver(t *testing.T) {
	const url = "https://198.18.0.1/driver"
	const wrongURL = "url must be local:// for a built-in driver, or the https:// or http:// address"
	const noChecksum = "an active external driver needs spec.checksum (sha256 or sha512 of what url serves), or spec.insecureSkipChecksum: true"
	for name, tt := range map[string]struct {
		spec    map[string]any
		wantErr string
	}{
		"built in":                   {spec: map[string]any{"url": "local://", "active": true}},
		"external":                   {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("a", 64)}},
		"external over http":         {spec: map[string]any{"url": "http://198.18.0.1/driver", "active": true, "checksum": strings.Repeat("A", 128)}},
		"weak checksums":             {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("0", 32)}},
		"sha1":                       {spec: map[string]any{"url": url, "active": true, "checksum": strings.Repeat("0", 40)}},
		"inactive without checksum":  {spec: map[string]any{"url": url}},
		"accepts anything":           {spec: map[string]any{"url": url, "active": true, "insecureSkipChecksum": true}},
		"active without checksum":    {spec: map[string]any{"url": url, "active": true}, wantErr: noChecksum},
		"active with an empty one":   {spec: map[string]any{"url": url, "active": true, "checksum": ""}, wantErr: noChecksum},
		"file":                       {spec: map[string]any{"url": "file:///etc/passwd"}, wantErr: wrongURL},
		"no scheme":                  {spec: map[string]any{"url": "198.18.0.1/driver"}, wantErr: wrongURL},
		"no URL":                     {spec: map[string]any{"active": true}, wantErr: "spec.url: Required value"},
		"empty URL":                  {spec: map[string]any{"url": ""}, wantErr: "spec.url"},
		"long URL":                   {spec: map[string]any{"url": url + strings.Repeat("x", 2048)}, wantErr: "2048"},
		"checksum of no kind":        {spec: map[string]any{"url": url, "checksum": "abcd"}, wantErr: "spec.checksum"},
		"checksum that is no hex":    {spec: map[string]any{"url": url, "checksum": strings.Repeat("g", 64)}, wantErr: "spec.checksum"},
		"checksum with its kind":     {spec: map[string]any{"url": url, "checksum": "sha256:" + strings.Repeat("a", 64)}, wantErr: "spec.checksum"},
		"long name":                  {spec: map[string]any{"url": url, "displayName": strings.Repeat("a", 58)}, wantErr: "57"},
		"longest name":               {spec: map[string]any{"url": url, "displayName": strings.Repeat("a", 57)}},
		"provider IDs":               {spec: map[string]any{"url": url, "providerIDTemplate": "acme://{Region}/{InstanceID}"}},
		"provider IDs of no kind":    {spec: map[string]any{"url": url, "providerIDTemplate": "{InstanceID}"}, wantErr: "spec.providerIDTemplate"},
		"a field that there is not":  {spec: map[string]any{"url": url, "chekcsum": "x"}, wantErr: `unknown field "spec.chekcsum"`},
		"a field of the wrong type":  {spec: map[string]any{"url": url, "active": "yes"}, wantErr: "spec.active"},
		"what Drover does not read":  {spec: map[string]any{"url": url, "uiUrl": "https://x", "externalId": "e", "whitelistDomains": []any{"a.test"}, "addCloudCredential": true}},
		"what Rancher writes itself": {spec: map[string]any{"url": "local://", "builtin": true, "active": false, "checksum": "", "description": "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj, err := try(t, v3.GroupVersion.WithKind("NodeDriver"), "", tt.spec)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			for _, field := range []string{"active", "insecureSkipChecksum"} {
				_, there, err := unstructured.NestedBool(obj.Object, "spec", field)
				require.NoError(t, err)
				require.True(t, there, "%s is filled in", field)
			}
		})
	}
}

func TestServer_rulesOfAnRKECluster(t *testing.T) {
	endpoint := func(host string, port any) map[string]any {
		return map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}}
	}
	for name, tt := range map[string]struct {
		spec    map[string]any
		wantErr string
	}{
		"nothing given":     {spec: map[string]any{}},
		"an endpoint":       {spec: endpoint("api.test", int64(6443))},
		"port too high":     {spec: endpoint("api.test", int64(65536)), wantErr: "spec.controlPlaneEndpoint.port"},
		"port in quotes":    {spec: endpoint("api.test", "6443"), wantErr: "spec.controlPlaneEndpoint.port"},
		"no port":           {spec: map[string]any{"controlPlaneEndpoint": map[string]any{"host": "api.test"}}, wantErr: "port"},
		"host is empty":     {spec: endpoint("", int64(6443)), wantErr: "spec.controlPlaneEndpoint.host"},
		"host is too long":  {spec: endpoint(strings.Repeat("a", 513), int64(6443)), wantErr: "spec.controlPlaneEndpoint.host"},
		"no such field":     {spec: map[string]any{"loadBalancer": true}, wantErr: `unknown field "spec.loadBalancer"`},
		"an empty endpoint": {spec: map[string]any{"controlPlaneEndpoint": map[string]any{}}, wantErr: "spec.controlPlaneEndpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, schema.GroupVersionKind{Group: "rke.cattle.io", Version: "v1", Kind: "RKECluster"}, metav1.NamespaceDefault, tt.spec)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
		})
	}
}
