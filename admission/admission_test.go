package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit/golden"
)

func newClient(tb testing.TB, objs ...client.Object) client.Client {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, v3.AddToScheme(scheme))
	require.NoError(tb, apiextensionsv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
}

func request(t *testing.T, operation admissionv1.Operation, obj, old any) webhook.Request {
	t.Helper()
	encode := func(value any) runtime.RawExtension {
		if value == nil {
			return runtime.RawExtension{}
		}
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: raw}
	}
	return webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "team", Object: encode(obj), OldObject: encode(old)}}
}

// object is one of a driver's kinds; spec is the whole of it for a config.
func object(kind, credential string) map[string]any {
	spec := map[string]any{}
	if credential != "" {
		spec["common"] = map[string]any{"cloudCredentialSecretName": credential}
	}
	return map[string]any{"apiVersion": "rke-machine.cattle.io/v1", "kind": kind,
		"metadata": map[string]any{"name": "one", "namespace": "team"}, "spec": spec}
}

func nodeDriver(name string, change func(*v3.NodeDriver)) *v3.NodeDriver {
	nd := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v3.NodeDriverSpec{URL: "local://", Active: true}}
	if change != nil {
		change(nd)
	}
	return nd
}

func expect(t *testing.T, got webhook.Response, refusal string) {
	t.Helper()
	if refusal == "" {
		require.True(t, got.Allowed, "%+v", got.Result)
		return
	}
	require.False(t, got.Allowed)
	require.Contains(t, got.Result.Message, refusal)
}

func TestMachineKinds_update(t *testing.T) {
	c := newClient(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "there"}})
	hook := &admission.MachineKinds{Cached: c, Live: c}
	going := object("NoopMachine", "gone")
	going["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	for name, tt := range map[string]struct {
		obj, old map[string]any
		refusal  string
	}{
		"the credential is gone, but was named before": {obj: object("NoopMachine", "gone"), old: object("NoopMachine", "gone")},
		"to one that is there":                         {obj: object("NoopMachine", "there"), old: object("NoopMachine", "gone")},
		"to one that is not there":                     {obj: object("NoopMachine", "gone"), old: object("NoopMachine", "there"), refusal: "does not exist"},
		"to none":                                      {obj: object("NoopMachine", ""), old: object("NoopMachine", "there")},
		"while it is being deleted":                    {obj: going, old: object("NoopMachine", "there")},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, hook.Handle(t.Context(), request(t, admissionv1.Update, tt.obj, tt.old)), tt.refusal)
		})
	}
}

func TestMachineKinds_tellsNothingOfOtherNamespaces(t *testing.T) {
	c := newClient(t, nodeDriver("noop", nil), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "one"}})
	hook := &admission.MachineKinds{Cached: c, Live: c}
	there := hook.Handle(t.Context(), request(t, admissionv1.Create, object("NoopMachine", "other:one"), nil))
	missing := hook.Handle(t.Context(), request(t, admissionv1.Create, object("NoopMachine", "other:two"), nil))
	require.False(t, there.Allowed)
	require.False(t, missing.Allowed)
	require.Equal(t, strings.ReplaceAll(there.Result.Message, "one", "two"), missing.Result.Message)

	// Nor is there a way around it for those who say that they can wait.
	waiting := func(credential string) webhook.Response {
		obj := object("NoopMachine", credential)
		obj["metadata"].(map[string]any)["annotations"] = map[string]any{admission.MissingCredentialAnnotation: "true"}
		return hook.Handle(t.Context(), request(t, admissionv1.Create, obj, nil))
	}
	there, missing = waiting("other:one"), waiting("other:two")
	require.Equal(t, missing.Allowed, there.Allowed)
	require.Equal(t, missing.Warnings[0], strings.ReplaceAll(there.Warnings[0], "one", "two"))
}

// Credentials that Rancher's user interface made, in a namespace that the manager was told to trust; nothing else of that namespace.
func TestMachineKinds_trustsRanchersCredentials(t *testing.T) {
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: name}}
	}
	c := newClient(t, nodeDriver("noop", nil), secret("cc-x7k2p"), secret("other"))
	hook := &admission.MachineKinds{Cached: c, Live: c, TrustedCredentialNamespaces: []string{"cattle-global-data"}}
	for name, want := range map[string]bool{"cc-x7k2p": true, "other": false, "cc-missing": false} {
		got := hook.Handle(t.Context(), request(t, admissionv1.Create, object("NoopMachine", "cattle-global-data:"+name), nil))
		require.Equal(t, want, got.Allowed, name)
	}
}

func TestNodeDrivers(t *testing.T) {
	builtin := func(nd *v3.NodeDriver) { nd.Spec.Builtin = true }
	invalid := func(nd *v3.NodeDriver) { nd.Spec.URL = "https:///x" }
	established := func(nd *v3.NodeDriver) { nd.Status.MachineKind = "NoopMachine" }
	renamed := func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "none" }
	weak := nodeDriver("acme", func(nd *v3.NodeDriver) {
		nd.Spec.URL, nd.Spec.Checksum = "https://198.18.0.1/x", "d41d8cd98f00b204e9800998ecf8427e"
	})
	for name, tt := range map[string]struct {
		operation admissionv1.Operation
		obj, old  *v3.NodeDriver
		refusal   string
		warning   string
	}{
		"good":                         {operation: admissionv1.Create, obj: nodeDriver("noop", nil)},
		"invalid":                      {operation: admissionv1.Create, obj: nodeDriver("noop", invalid), refusal: "no host"},
		"weak":                         {operation: admissionv1.Create, obj: weak, warning: "md5"},
		"invalid already, now a label": {operation: admissionv1.Update, obj: nodeDriver("noop", invalid), old: nodeDriver("noop", invalid)},
		"renamed before it has kinds":  {operation: admissionv1.Update, obj: nodeDriver("noop", renamed), old: nodeDriver("noop", nil)},
		"renamed":                      {operation: admissionv1.Update, obj: nodeDriver("noop", renamed), old: nodeDriver("noop", established), refusal: "create a new NodeDriver"},
		"made built in":                {operation: admissionv1.Update, obj: nodeDriver("noop", builtin), old: nodeDriver("noop", nil), refusal: "spec.builtin"},
		"deleted":                      {operation: admissionv1.Delete, old: nodeDriver("noop", nil)},
		"deleted though built in":      {operation: admissionv1.Delete, old: nodeDriver("noop", builtin), refusal: "spec.active to false"},
	} {
		t.Run(name, func(t *testing.T) {
			var obj, old any
			if tt.obj != nil {
				obj = tt.obj
			}
			if tt.old != nil {
				old = tt.old
			}
			got := (&admission.NodeDrivers{}).Handle(t.Context(), request(t, tt.operation, obj, old))
			expect(t, got, tt.refusal)
			if tt.warning != "" {
				require.Contains(t, got.Warnings[0], tt.warning)
			}
		})
	}
}

// FuzzMachineKinds: whatever arrives is answered.
func FuzzMachineKinds(f *testing.F) {
	f.Add([]byte(`{"kind":"NoopMachine","apiVersion":"rke-machine.cattle.io/v1","spec":{"common":{"cloudCredentialSecretName":"a:b:c"}}}`))
	f.Add([]byte(`{"kind":"NoopMachineTemplate","spec":{"template":{"spec":{"common":7}}}}`))
	f.Add([]byte(`{"kind":"x","metadata":{"annotations":{"a":1}}}`))
	c := newClient(f, nodeDriver("noop", nil))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			req := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation, Namespace: "team",
				Object: runtime.RawExtension{Raw: raw}, OldObject: runtime.RawExtension{Raw: []byte(`{"kind":"NoopMachine"}`)}}}
			got := (&admission.MachineKinds{Cached: c, Live: c}).Handle(t.Context(), req)
			require.True(t, got.Allowed || got.Result != nil)
		}
	})
}

// away is an API server that cannot be reached.
type away struct{}

func (away) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("dial tcp: no route to host")
}

func (away) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("dial tcp: no route to host")
}

// What is our own fault is told from what is the user's: the API server says "Internal error" and people do not search their manifest.
func TestMachineKinds_ourOwnFaults(t *testing.T) {
	c := newClient(t, nodeDriver("noop", nil))
	for name, tt := range map[string]struct {
		hook    admission.MachineKinds
		obj     any
		code    int32
		message string
	}{
		"NodeDrivers cannot be listed": {admission.MachineKinds{Cached: away{}, Live: away{}}, object("NoopMachine", ""), http.StatusInternalServerError,
			"listing NodeDrivers: dial tcp: no route to host"},
		"the cache is empty and the server away": {admission.MachineKinds{Cached: newClient(t), Live: away{}}, object("NoopMachine", ""), http.StatusInternalServerError,
			"listing NodeDrivers: dial tcp: no route to host"},
		"the credential cannot be read": {admission.MachineKinds{Cached: c, Live: away{}}, object("NoopMachine", "one"), http.StatusInternalServerError,
			"reading the credential Secret team/one: dial tcp: no route to host"},
		"no object": {admission.MachineKinds{Cached: c, Live: c}, "text", http.StatusBadRequest, "decoding the object: "},
		"no name before the colon": {admission.MachineKinds{Cached: c, Live: c}, object("NoopMachine", ":one"), http.StatusForbidden,
			`common.cloudCredentialSecretName is ":one": write the Secret's name, or namespace:name`},
		"no name behind the colon": {admission.MachineKinds{Cached: c, Live: c}, object("NoopMachine", "team:"), http.StatusForbidden,
			`common.cloudCredentialSecretName is "team:": write the Secret's name, or namespace:name`},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.hook.Handle(t.Context(), request(t, admissionv1.Create, tt.obj, nil))
			require.False(t, got.Allowed)
			require.Equal(t, tt.code, got.Result.Code)
			require.Contains(t, got.Result.Message, tt.message)
		})
	}
}

// Two NodeDrivers may claim one driver's name while one replaces the other: the one that can work answers.
func TestMachineKinds_ofSeveralTheOneThatWorksAnswers(t *testing.T) {
	named := func(name string, change func(*v3.NodeDriver)) client.Object {
		return nodeDriver(name, func(nd *v3.NodeDriver) {
			nd.Spec.DisplayName = "noop"
			if change != nil {
				change(nd)
			}
		})
	}
	now := metav1.Now()
	going := func(nd *v3.NodeDriver) { nd.DeletionTimestamp, nd.Finalizers = &now, []string{"x/y"} }
	idle := func(nd *v3.NodeDriver) { nd.Spec.Active = false }
	for name, tt := range map[string]struct {
		there   []client.Object
		refusal string
	}{
		"idle first":          {[]client.Object{named("a", idle), named("b", nil)}, ""},
		"idle last":           {[]client.Object{named("a", nil), named("b", idle)}, ""},
		"going first":         {[]client.Object{named("a", going), named("b", nil)}, ""},
		"going last":          {[]client.Object{named("a", nil), named("b", going)}, ""},
		"all idle":            {[]client.Object{named("a", idle), named("b", idle)}, "NodeDriver a is inactive: set its spec.active to true to create a new NoopConfig"},
		"of another name":     {[]client.Object{nodeDriver("none", nil)}, "no NodeDriver defines the kind NoopConfig: list them with `kubectl get nodedrivers`, and create one for this driver first"},
		"going, and the last": {[]client.Object{named("a", going)}, "NodeDriver a is being deleted, so no new NoopConfig can be created: use another driver, or create the NodeDriver again after its deletion"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, tt.there...)
			got := (&admission.MachineKinds{Cached: c, Live: c}).Handle(t.Context(), request(t, admissionv1.Create, object("NoopConfig", ""), nil))
			require.Equal(t, tt.refusal == "", got.Allowed)
			if tt.refusal != "" {
				require.Equal(t, tt.refusal, got.Result.Message)
			}
		})
	}
	behind := &admission.MachineKinds{Cached: newClient(t), Live: newClient(t, nodeDriver("noop", nil))}
	expect(t, behind.Handle(t.Context(), request(t, admissionv1.Create, object("NoopMachine", ""), nil)), "")
}

// What the API server is told to ask, for a Service in the cluster and for a manager outside of it.
func TestConfigurationIsGolden(t *testing.T) {
	for name, target := range map[string]admission.Target{
		"service": {Service: client.ObjectKey{Namespace: "drover-system", Name: "drover-webhooks"}, CABundle: []byte("PEM"), CAPI: true,
			Username: "system:serviceaccount:drover-system:drover-manager",
			Owner:    &metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "drover-manager", UID: "1"}},
		"url": {URL: "https://127.0.0.1:9443/", CABundle: []byte("PEM")},
	} {
		t.Run(name, func(t *testing.T) {
			validating, mutating := admission.Configuration(target)
			require.Equal(t, target.CAPI, mutating != nil)
			var out strings.Builder
			all := []any{validating, mutating}
			for _, obj := range admission.Policies(target.Owner) {
				all = append(all, obj)
			}
			for _, obj := range all {
				text, err := yaml.Marshal(obj)
				require.NoError(t, err)
				out.WriteString("---\n" + string(text))
			}
			golden.Require(t, "testdata/configuration-"+name+".yaml", out.String())
		})
	}
}

// FuzzNodeDrivers: whatever arrives as a NodeDriver is answered, and a change that changes nothing is let through.
func FuzzNodeDrivers(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"acme"},"spec":{"url":"local://","displayName":"noop"}}`), []byte(`{"status":{"machineKind":"NoopMachine"}}`))
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"url":"https://d.example/a","active":true}}`), []byte(``))
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"url":"https://d.example/a"}}`), []byte(``))
	f.Add([]byte(`{"metadata":{"name":"acme"},"spec":{"url":"https://d.example/acme","insecureSkipChecksum":true}}`), []byte(`{}`))
	f.Add([]byte(`{"spec":{"url":"https://u:p@[::1/","checksum":"zz","builtin":true}}`), []byte(`{"spec":{"builtin":false}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"defaults":":","nodedriver.cattle.io/file-to-field-aliases":"a"}},"spec":{"url":"\u0000"}}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, obj, old []byte) {
		hook := &admission.NodeDrivers{}
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect} {
			got := hook.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation,
				Object: runtime.RawExtension{Raw: obj}, OldObject: runtime.RawExtension{Raw: old}}})
			require.True(t, got.Allowed || got.Result.Message != "")
			if got.Allowed && operation == admissionv1.Create && len(obj) > 0 {
				// Its name can be a file's and a kind's, and what is downloaded, as it is once a driver is active, is checked unless that was waived.
				var nd v3.NodeDriver
				require.NoError(t, json.Unmarshal(obj, &nd))
				require.Regexp(t, `\A[a-z][a-z0-9-]{0,43}\z`, nd.DriverName())
				require.True(t, driver.IsBuiltin(&nd) || !nd.Spec.Active || nd.Spec.InsecureSkipChecksum || nd.Spec.Checksum != "", "an external driver without a checksum")
			}
		}
		if json.Unmarshal(obj, &v3.NodeDriver{}) != nil || len(obj) == 0 {
			return
		}
		same := hook.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update,
			Object: runtime.RawExtension{Raw: obj}, OldObject: runtime.RawExtension{Raw: obj}}})
		require.True(t, same.Allowed, "an old object stays editable")
	})
}
