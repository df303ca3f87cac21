package v3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/golden"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func newClient(t *testing.T) client.WithWatch {
	t.Helper()
	crds, err := charts.CRDs()
	require.NoError(t, err)
	testkit.ApplyCRDs(t, crds...)
	scheme := runtime.NewScheme()
	require.NoError(t, v3.AddToScheme(scheme))
	return testkit.Client(t, scheme)
}

type written struct{ name, spec string }

// writtenDrivers are specs as users write them, in YAML; the answers are in testdata/answers.golden.
func writtenDrivers() []written {
	sha256, md5 := strings.Repeat("a", 64), strings.Repeat("B", 32)
	return []written{
		{"only a built-in URL", "url: local://"},
		{"active and built in", "url: local://\nactive: true"},
		{"inactive without a checksum", "url: https://drivers.example/acme.zip\nactive: false"},
		{"active with sha256", "url: https://drivers.example/acme.zip\nactive: true\nchecksum: " + sha256},
		{"active with sha512", "url: https://drivers.example/acme.zip\nactive: true\nchecksum: " + sha256 + sha256},
		{"active with md5, as Rancher's", "url: http://drivers.example/acme.zip\nactive: true\nchecksum: " + md5},
		{"active without a checksum", "url: https://drivers.example/acme.zip\nactive: true"},
		{"active with an empty checksum", "url: https://drivers.example/acme.zip\nactive: true\nchecksum: ''"},
		{"active, anything goes", "url: https://drivers.example/acme.zip\nactive: true\ninsecureSkipChecksum: true"},
		{"a digest with its kind", "url: https://drivers.example/acme.zip\nchecksum: sha256:" + sha256},
		{"a checksum of odd length", "url: https://drivers.example/acme.zip\nchecksum: " + sha256 + "a"},
		{"a checksum with a line break", "url: https://drivers.example/acme.zip\nchecksum: \"" + sha256 + "\\n\""},
		{"a checksum that is a number", "url: https://drivers.example/acme.zip\nchecksum: " + strings.Repeat("1", 32)},
		{"no URL", "active: false"},
		{"an empty URL", "url: ''"},
		{"a path", "url: /usr/bin/docker-machine-driver-acme"},
		{"a file", "url: file:///etc/passwd"},
		{"another scheme", "url: ftp://drivers.example/acme.zip"},
		{"a scheme in capitals", "url: HTTPS://drivers.example/acme.zip"},
		{"a long URL", "url: https://drivers.example/" + strings.Repeat("x", 2048)},
		{"a long display name", "url: local://\ndisplayName: " + strings.Repeat("d", 58)},
		{"text for active", "url: local://\nactive: 'yes'"},
		{"null for active", "url: local://\nactive: null"},
		{"an unknown field", "url: local://\nchecksun: abc"},
		{"a provider ID template", "url: local://\nproviderIDTemplate: mycloud://{Region}/{InstanceID}"},
		{"a provider ID template without a scheme", "url: local://\nproviderIDTemplate: '{InstanceID}'"},
		{"a provider ID template that is long", "url: local://\nproviderIDTemplate: a://" + strings.Repeat("x", 253)},
		{"all of Rancher's fields", "url: local://\nactive: false\naddCloudCredential: true\nbuiltin: true\nchecksum: ''\ndescription: d\ndisplayName: acme\n" +
			"externalId: e\nuiUrl: https://ui.example\nwhitelistDomains: ['*.example']"},
		{"a status", "url: local://\n---\nfields: 7"},
	}
}

// nodeDriver reads a spec, and a status behind a line of dashes.
func nodeDriver(t *testing.T, name, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver"}}
	object.SetName(name)
	for i, part := range strings.SplitN(text, "\n---\n", 2) {
		var content map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(part), &content))
		object.Object[[]string{"spec", "status"}[i]] = content
	}
	return object
}

// answer is what the server made of an object, or why not.
func answer(t *testing.T, object *unstructured.Unstructured, err error) string {
	t.Helper()
	if err != nil {
		return "refused: " + strings.ReplaceAll(testkit.Refusal(err), object.GetName(), "NAME") + "\n"
	}
	delete(object.Object, "metadata")
	text, err := yaml.Marshal(object.Object)
	require.NoError(t, err)
	// A single object that our Go type cannot hold would keep the manager from reading any.
	require.NoError(t, yaml.Unmarshal(text, &v3.NodeDriver{}))
	return string(text)
}

func TestServerAnswersEveryNodeDriverUsersWrite(t *testing.T) {
	strict := client.WithFieldValidation(newClient(t), metav1.FieldValidationStrict)
	var out strings.Builder
	for i, tt := range writtenDrivers() {
		object := nodeDriver(t, fmt.Sprintf("written-%d", i), tt.spec)
		err := strict.Create(t.Context(), object)
		fmt.Fprintf(&out, "# %s\n%s", tt.name, answer(t, object, err))
	}
	golden.Require(t, "testdata/answers.golden", out.String())
}

// Old objects must stay editable, and an edit must not get round a rule.
// What `kubectl get -o yaml` prints of Rancher's NodeDrivers is taken as kubectl sends it, which lets no unknown field through.
func TestServerTakesWhatRancherExports(t *testing.T) {
	exported := nodeDriver(t, "exported", `
active: false
addCloudCredential: false
builtin: false
checksum: ""
description: ""
displayName: outscale
externalId: ""
uiUrl: https://drivers.example/component.js
url: https://drivers.example/acme.zip
whitelistDomains: [drivers.example]
`)
	var status map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(`
appliedChecksum: ""
appliedDockerMachineVersion: ""
appliedURL: https://drivers.example/acme.zip
conditions:
- {lastUpdateTime: "2026-01-01T00:00:00Z", status: "True", type: Inactive}
- {lastUpdateTime: "2026-01-01T00:00:00Z", message: downloaded, status: "False", type: Downloaded}
`), &status))
	exported.Object["status"] = status
	c := newClient(t)
	require.NoError(t, c.Create(t.Context(), exported, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)))
}

func TestServerAnswersEdits(t *testing.T) {
	c := newClient(t)
	const external = "an active external driver needs spec.checksum (sha256 or sha512 of what url serves), or spec.insecureSkipChecksum: true to accept any content"
	const address = "url must be local:// for a built-in driver, or the https:// or http:// address of the driver's binary, tar.gz or zip"
	for name, tt := range map[string]struct{ before, after, refusal string }{
		"made active with a checksum":    {"url: https://x/y", "url: https://x/y\nactive: true\nchecksum: " + strings.Repeat("a", 64), ""},
		"made active without a checksum": {"url: https://x/y", "url: https://x/y\nactive: true", external},
		"checksum taken away":            {"url: https://x/y\nactive: true\nchecksum: " + strings.Repeat("a", 64), "url: https://x/y\nactive: true", external},
		"made inactive at the same time": {"url: https://x/y\nactive: true\nchecksum: " + strings.Repeat("a", 64), "url: https://x/y\nactive: false", ""},
		"from built in to external":      {"url: local://\nactive: true", "url: https://x/y\nactive: true", external},
		"to a file":                      {"url: local://", "url: file:///x", address},
		"checksum waived":                {"url: https://x/y", "url: https://x/y\nactive: true\ninsecureSkipChecksum: true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := nodeDriver(t, "edit-"+strings.ReplaceAll(name, " ", "-"), tt.before)
			require.NoError(t, c.Create(t.Context(), object))
			object.Object["spec"] = nodeDriver(t, "x", tt.after).Object["spec"]
			err := c.Update(t.Context(), object)
			if tt.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err))
			require.EqualError(t, err, fmt.Sprintf(`NodeDriver.management.cattle.io %q is invalid: spec: Invalid value: %s`, object.GetName(), tt.refusal))
		})
	}
}

// fullDriver has a value in every field.
func fullDriver() *v3.NodeDriver {
	now := metav1.Unix(1_700_000_000, 0)
	return &v3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "full", Annotations: map[string]string{v3.DefaultsAnnotation: "port:443"}},
		Spec: v3.NodeDriverSpec{
			DisplayName: "acme", Description: "d", ExternalID: "e", UIURL: "https://ui.example", URL: "https://x/y", Checksum: strings.Repeat("a", 64),
			Builtin: true, Active: true, AddCloudCredential: true, WhitelistDomains: []string{"a", "b"}, InsecureSkipChecksum: true, Version: "1",
			ProviderIDTemplate: "acme://{ID}",
		},
		Status: v3.NodeDriverStatus{
			Conditions: []metav1.Condition{{Type: v3.ReadyCondition, Status: metav1.ConditionTrue, Reason: v3.ReadyReason, Message: "m",
				LastTransitionTime: now, ObservedGeneration: 1}},
			ObservedGeneration: 2, AppliedURL: "u", AppliedChecksum: "c", AppliedVersion: "v", AppliedDockerMachineVersion: "dm", DriverName: "acme", Digest: "d",
			Fields: 3, ConfigKind: "AcmeConfig", MachineKind: "AcmeMachine", MachineTemplateKind: "AcmeMachineTemplate", ProbeAttempts: 4, LastProbeTime: &now,
		},
	}
}

// The definition has every field of the Go type: what a controller writes comes back, and nothing is pruned in silence.
func TestServerKeepsEveryField(t *testing.T) {
	c := newClient(t)
	full := fullDriver()
	got := full.DeepCopy()
	require.NoError(t, c.Create(t.Context(), got))
	got.Status = full.Status
	require.NoError(t, c.Status().Update(t.Context(), got))
	back := testkit.ExpectExists(t, c, &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "full"}})
	require.Equal(t, full.Spec, back.Spec)
	require.True(t, full.Status.LastProbeTime.Equal(back.Status.LastProbeTime))
	back.Status.LastProbeTime, back.Status.Conditions[0].LastTransitionTime = full.Status.LastProbeTime, full.Status.Conditions[0].LastTransitionTime
	require.Equal(t, full.Status, back.Status)

	twice := back.DeepCopy()
	twice.Status.Conditions = append(twice.Status.Conditions, twice.Status.Conditions[0])
	require.ErrorContains(t, c.Status().Update(t.Context(), twice), `status.conditions[1]: Duplicate value: {"type":"Ready"}`)
	bare := back.DeepCopy()
	bare.Spec.URL = "local://changed-beside-the-status"
	require.NoError(t, c.Status().Update(t.Context(), bare))
	require.Equal(t, full.Spec.URL, testkit.ExpectExists(t, c, back).Spec.URL, "a status is written alone")
}
