package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/driver"
)

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
		"all idle":            {[]client.Object{named("a", idle), named("b", idle)}, "NodeDriver a is inactive: set its spec.active to true to make a new NoopConfig"},
		"of another name":     {[]client.Object{nodeDriver("none", nil)}, "no NodeDriver makes the kind NoopConfig: see `kubectl get nodedrivers`, and create one for this driver first"},
		"going, and the last": {[]client.Object{named("a", going)}, "NodeDriver a is being deleted and makes no new NoopConfig: use another driver, or create the NodeDriver again once it is gone"},
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
			path := filepath.Join("testdata", "configuration-"+name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), out.String(), "run go test ./admission -update after looking at the difference")
		})
	}
}

// Each webhook fails closed, has no side effects, answers soon, and has a name and a path of its own.
func TestConfigurationFailsClosed(t *testing.T) {
	validating, mutating := admission.Configuration(admission.Target{URL: "https://h", CAPI: true, Username: "a'b\\c\nd"})
	names := map[string]bool{}
	for _, hook := range validating.Webhooks {
		require.Equal(t, "Fail", string(*hook.FailurePolicy), hook.Name)
		require.Equal(t, "None", string(*hook.SideEffects), hook.Name)
		require.LessOrEqual(t, *hook.TimeoutSeconds, int32(10), hook.Name)
		require.False(t, names[hook.Name+*hook.ClientConfig.URL], hook.Name)
		names[hook.Name+*hook.ClientConfig.URL] = true
	}
	for _, hook := range mutating.Webhooks {
		require.Equal(t, "Fail", string(*hook.FailurePolicy), hook.Name)
		require.Equal(t, "None", string(*hook.SideEffects), hook.Name)
	}
	require.Equal(t, `request.userInfo.username != 'a\'b\\c\nd'`, validating.Webhooks[0].MatchConditions[0].Expression)
}

// requireSound: the name of what is let in can be a file's and a kind's, and what is downloaded, as it is once a driver is active, is
// checked unless that was waived.
func requireSound(t *testing.T, raw []byte) {
	t.Helper()
	var nd v3.NodeDriver
	require.NoError(t, json.Unmarshal(raw, &nd))
	require.Regexp(t, `\A[a-z][a-z0-9-]{0,43}\z`, nd.DriverName())
	require.True(t, driver.IsBuiltin(&nd) || !nd.Spec.Active || nd.Spec.InsecureSkipChecksum || nd.Spec.Checksum != "", "an external driver without a checksum")
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
				requireSound(t, obj)
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
