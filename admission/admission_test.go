package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
)

func newClient(tb testing.TB, objs ...client.Object) client.Client {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, v3.AddToScheme(scheme))
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

func TestMachineKinds_driver(t *testing.T) {
	now := metav1.Now()
	deleting := func(nd *v3.NodeDriver) { nd.DeletionTimestamp, nd.Finalizers = &now, []string{"x/y"} }
	inactive := func(nd *v3.NodeDriver) { nd.Spec.Active = false }
	second := nodeDriver("second", func(nd *v3.NodeDriver) { nd.Spec.DisplayName = "noop" })
	for name, tt := range map[string]struct {
		there   []client.Object
		kind    string
		refusal string
	}{
		"known":                         {there: []client.Object{nodeDriver("noop", nil)}, kind: "NoopMachine"},
		"unknown":                       {kind: "NoopMachine", refusal: "no NodeDriver makes the kind NoopMachine"},
		"being deleted":                 {there: []client.Object{nodeDriver("noop", deleting)}, kind: "NoopMachine", refusal: "is being deleted"},
		"being deleted, with an heir":   {there: []client.Object{nodeDriver("noop", deleting), second}, kind: "NoopMachine"},
		"inactive, template":            {there: []client.Object{nodeDriver("noop", inactive)}, kind: "NoopMachineTemplate", refusal: "spec.active to true"},
		"inactive, config":              {there: []client.Object{nodeDriver("noop", inactive)}, kind: "NoopConfig", refusal: "spec.active to true"},
		"inactive, machine is replaced": {there: []client.Object{nodeDriver("noop", inactive)}, kind: "NoopMachine"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, tt.there...)
			hook := &admission.MachineKinds{Cached: c, Live: c}
			expect(t, hook.Handle(t.Context(), request(t, admissionv1.Create, object(tt.kind, ""), nil)), tt.refusal)
		})
	}
	t.Run("a cache that is behind", func(t *testing.T) {
		hook := &admission.MachineKinds{Cached: newClient(t), Live: newClient(t, nodeDriver("noop", nil))}
		expect(t, hook.Handle(t.Context(), request(t, admissionv1.Create, object("NoopMachine", ""), nil)), "")
	})
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

func TestMachineKinds_warnsClonedMachines(t *testing.T) {
	c := newClient(t, nodeDriver("noop", nil))
	obj := object("NoopMachine", "later")
	obj["metadata"].(map[string]any)["annotations"] = map[string]any{"cluster.x-k8s.io/cloned-from-name": "template"}
	got := (&admission.MachineKinds{Cached: c, Live: c}).Handle(t.Context(), request(t, admissionv1.Create, obj, nil))
	expect(t, got, "")
	require.Contains(t, got.Warnings[0], "waits for it")
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
