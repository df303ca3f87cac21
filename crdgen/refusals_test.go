package crdgen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
	"github.com/drover-project/drover/testkit/golden"
)

// acmeKinds installs the kinds of a driver with one field of each sort.
func acmeKinds(t *testing.T) dynamic.Interface {
	t.Helper()
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: acmeFields()})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, config, template, machine)
	client, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	return client
}

// writtenMachines are specs of machines as users write them; the API server's answer to each is in testdata/refusals.golden.
func writtenMachines() []given {
	long := strings.Repeat("x", 64<<10)
	taint := func(taint string) string { return `{"common":{"taints":[` + taint + `]}}` }
	credential := func(name string) string { return `{"common":{"cloudCredentialSecretName":"` + name + `"}}` }
	return []given{
		{"nothing", `{}`},
		{"everything", `{"region":"r","sshPort":22,"backups":true,"ipv6":false,"tags":["a"],"sshKeyContents":"K","token":"t","account":"a","port":"443","project":"p"}`},
		{"nulls", `{"region":null,"sshPort":null,"backups":null,"tags":null,"sshKeyContents":null,"common":null}`},
		{"empty integer", `{"sshPort":""}`},
		{"negative integer as text", `{"sshPort":"-1"}`},
		{"word for an integer", `{"sshPort":"ssh"}`},
		{"hexadecimal", `{"sshPort":"0x16"}`},
		{"integer with a unit", `{"sshPort":"22G"}`},
		{"integer of 19 digits", `{"sshPort":"1234567890123456789"}`},
		{"integer with a line break", `{"sshPort":"22\n"}`},
		{"fraction", `{"sshPort":2.5}`},
		{"boolean for an integer", `{"sshPort":true}`},
		{"number for text", `{"region":1}`},
		{"list for text", `{"region":["a"]}`},
		{"text of 64 KiB", `{"region":"` + long + `"}`},
		{"text of 64 KiB and one", `{"region":"` + long + `x"}`},
		{"file of 512 KiB", `{"sshKeyContents":"` + strings.Repeat(long, 8) + `"}`},
		{"file of 512 KiB and one", `{"sshKeyContents":"` + strings.Repeat(long, 8) + `x"}`},
		{"path for a file", `{"sshKeyContents":"/root/.ssh/id_rsa"}`},
		{"path at home, with a line break, for a file", `{"sshKeyContents":"~/.ssh/id_rsa\n"}`},
		{"file whose first line is a path", `{"sshKeyContents":"/bin/true\nexit\n"}`},
		{"path for text", `{"region":"/root/.ssh/id_rsa"}`},
		{"text for a boolean", `{"backups":"true"}`},
		{"integer for a boolean", `{"backups":1}`},
		{"text for a list", `{"tags":"a"}`},
		{"numbers in a list", `{"tags":["a",1]}`},
		{"null in a list", `{"tags":[null]}`},
		{"1,025 items", `{"tags":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1025), ",") + `]}`},
		{"credential", credential("one")},
		{"credential elsewhere", credential("cattle-global-data:cc-x7k2p")},
		{"no credential", credential("")},
		{"credential with capitals", credential("One")},
		{"credential with three parts", credential("a:b:c")},
		{"credential without a namespace", credential(":one")},
		{"credential without a name", credential("ns:")},
		{"credential as a path", credential("../one")},
		{"credential with a dash", credential("-one")},
		{"credential that is long", credential(strings.Repeat("a", 318))},
		{"taint", taint(`{"key":"k","value":"v","effect":"NoExecute","timeAdded":"2026-01-01T00:00:00Z"}`)},
		{"taint without an effect", taint(`{"key":"k"}`)},
		{"taint without a key", taint(`{"effect":"NoSchedule"}`)},
		{"taint with an empty key", taint(`{"key":"","effect":"NoSchedule"}`)},
		{"taint of another effect", taint(`{"key":"k","effect":"Evict"}`)},
		{"taint with an odd time", taint(`{"key":"k","effect":"NoExecute","timeAdded":"today"}`)},
		{"label that is long", `{"common":{"labels":{"a":"` + strings.Repeat("l", 64) + `"}}}`},
		{"label that is a number", `{"common":{"labels":{"a":1}}}`},
		{"provider ID", `{"providerID":"acme://1"}`},
		{"provider ID that is long", `{"providerID":"` + strings.Repeat("p", 513) + `"}`},
		{"provider ID that is a number", `{"providerID":1}`},
	}
}

func TestServerAnswersEveryMachineUsersWrite(t *testing.T) {
	client, namespace := acmeKinds(t), testkit.Namespace(t)
	kinds := crdgen.KindsOf("acme")
	var out strings.Builder
	for i, tt := range writtenMachines() {
		var spec map[string]any
		require.NoError(t, json.Unmarshal([]byte(fmt.Sprint(tt.value)), &spec), tt.name)
		name := fmt.Sprintf("m%d", i)
		answers := map[string]string{}
		for resource, object := range map[string]map[string]any{
			"acmemachines":         {"kind": kinds.Machine, "spec": spec},
			"acmemachinetemplates": {"kind": kinds.MachineTemplate, "spec": map[string]any{"template": map[string]any{"spec": spec}}},
		} {
			object["apiVersion"], object["metadata"] = crdgen.MachineGroup+"/v1", map[string]any{"name": name}
			_, err := client.Resource(schema.GroupVersionResource{Group: crdgen.MachineGroup, Version: "v1", Resource: resource}).
				Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: "Strict"})
			answers[resource] = "taken"
			if err != nil {
				answers[resource] = "refused: " + testkit.Refusal(err)
			}
		}
		fmt.Fprintf(&out, "%s: %s\n", tt.name, strings.ReplaceAll(answers["acmemachines"], name, "NAME"))
		require.Equal(t, answers["acmemachines"] == "taken", answers["acmemachinetemplates"] == "taken",
			"%s: a template must not hold what no machine can: %s", tt.name, answers["acmemachinetemplates"])
	}
	golden.Require(t, "testdata/refusals.golden", out.String())
}

// What the server takes, our own reading of the object takes too: a machine is not refused twice for two reasons.
func TestOptionsTakeWhatTheServerTakes(t *testing.T) {
	_, _, machine, err := crdgen.CRDs(crdgen.Schema{Driver: "acme", Fields: acmeFields()})
	require.NoError(t, err)
	c := newChecker(t, machine)
	for _, tt := range writtenMachines() {
		object := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(`{"spec":`+fmt.Sprint(tt.value)+`}`), &object))
		spec, ok := object["spec"].(map[string]any)
		require.True(t, ok)
		if refusal := c.check(object, nil); refusal != "" {
			continue
		}
		_, _, err := crdgen.Options(acmeFields(), spec)
		require.NoError(t, err, tt.name)
	}
}
