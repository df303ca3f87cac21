package crdgen_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/crdgen"
)

// What cannot succeed is refused when it is written, in all three kinds, and CheckRules says the same of objects that are there already.
func TestServerRefusesWhatCannotSucceed(t *testing.T) {
	client := installDrivers(t, "digitalocean", "generic", "vmwarevsphere")
	all := builtinFields(t)
	for name, test := range map[string]struct{ driver, spec, want string }{
		"all of generic":     {"generic", `{ipAddress: 198.18.0.9, sshPort: 2222, sshKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nx"}`, ""},
		"a name, a text":     {"generic", `{ipAddress: host.example, sshPort: "22", sshKey: null}`, ""},
		"nothing":            {"generic", `{ipAddress: "", sshPort: "", sshKey: ""}`, ""},
		"no address":         {"generic", `{ipAddress: "198.18.0.9:22"}`, "must be an IP address or a DNS name"},
		"no port":            {"generic", `{sshPort: 0}`, "must be a port, from 1 to 65535"},
		"no port, as a text": {"generic", `{sshPort: "65536"}`, "must be a port, from 1 to 65535"},
		"a path for a key":   {"generic", `{sshKey: /root/.ssh/id_rsa}`, "must be the content of a private key"},
		"a passphrase":       {"generic", `{sshKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIA"}`, "must be the content of a private key without passphrase"},
		"a path for a file":  {"digitalocean", `{sshKeyContents: ~/.ssh/id_rsa}`, "must be the content of the file, not its path"},
		"Linux":              {"vmwarevsphere", `{os: linux}`, ""},
		"Windows":            {"vmwarevsphere", `{os: windows}`, "is Windows, which is not supported yet"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(test.spec), &spec))
			kinds := crdgen.KindsOf(test.driver)
			for kind, object := range map[string]map[string]any{
				kinds.Machine:         {"spec": spec},
				kinds.MachineTemplate: {"spec": map[string]any{"template": map[string]any{"spec": spec}}},
				kinds.Config:          spec,
			} {
				group := crdgen.MachineGroup
				if kind == kinds.Config {
					group = crdgen.ConfigGroup
				}
				u := &unstructured.Unstructured{Object: map[string]any{}}
				maps.Copy(u.Object, object)
				u.SetAPIVersion(group + "/v1")
				u.SetKind(kind)
				u.SetName("rules")
				plural := crdgen.CRDName(group, kind)
				resource := schema.GroupVersionResource{Group: group, Version: crdgen.Version, Resource: plural[:len(plural)-len(group)-1]}
				_, err := client.Resource(resource).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				requireSaid(t, test.want, err)
			}
			requireSaid(t, test.want, crdgen.CheckRules(all[test.driver], spec))
		})
	}
}

func requireSaid(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, want)
}
