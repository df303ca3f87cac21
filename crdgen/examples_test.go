package crdgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

// TestExamples_of_third_parties: the manifests that docs/drivers.md tells users to apply fit what the API has, strictly, and their
// credential has every key that the driver needs. The checksum that a user must fill in is refused as it is, with what to do.
func TestExamples_of_third_parties(t *testing.T) {
	text := func(name, env string) crdgen.Flag {
		return crdgen.Flag{Name: name, EnvVar: env, Type: crdgen.String}
	}
	// Those of the drivers' flags that the examples use, and what stands beside them: hetzner 5.0.2
	// driver/driver.go, vultr v2.3.0 machine/driver/driver.go, linode v0.1.16 pkg/drivers/linode/linode.go.
	for name, flags := range map[string][]crdgen.Flag{
		"hetzner": {text("hetzner-api-token", "HETZNER_API_TOKEN"), text("hetzner-image", "HETZNER_IMAGE"), text("hetzner-server-type", "HETZNER_TYPE"),
			text("hetzner-server-location", "HETZNER_LOCATION"), text("hetzner-user-data", "HETZNER_USER_DATA"),
			text("hetzner-user-data-file", "HETZNER_USER_DATA_FILE"), {Name: "hetzner-user-data-from-file", Type: crdgen.Bool},
			{Name: "hetzner-server-label", Type: crdgen.StringSlice}},
		"vultr": {text("vultr-api-key", "VULTR_API_KEY"), text("vultr-region", "VULTR_REGION"), text("vultr-vps-plan", "VULTR_VPS_PLAN"),
			{Name: "vultr-os-id", EnvVar: "VULTR_OSID", Type: crdgen.Int, Default: 1743}, {Name: "vultr-tags", EnvVar: "VULTR_TAGS", Type: crdgen.StringSlice},
			text("vultr-cloud-init-user-data", "VULTR_CLOUD_INIT_USER_DATA"), {Name: "vultr-cloud-init-from-file", Type: crdgen.Bool}},
		"linode": {text("linode-token", "LINODE_TOKEN"), text("linode-root-pass", "LINODE_ROOT_PASSWORD"), text("linode-region", "LINODE_REGION"),
			text("linode-instance-type", "LINODE_INSTANCE_TYPE"), text("linode-image", "LINODE_IMAGE"), text("linode-tags", "LINODE_TAGS")},
	} {
		t.Run(name, func(t *testing.T) {
			var nd v3.NodeDriver
			content, err := os.ReadFile(filepath.Join("..", "examples", name, "nodedriver.yaml"))
			require.NoError(t, err)
			require.NoError(t, yaml.UnmarshalStrict(content, &nd))
			if _, err = driver.Validate(&nd); name != "linode" {
				require.ErrorContains(t, err, "checksum")
				nd.Spec.Checksum = strings.Repeat("0", 64)
				_, err = driver.Validate(&nd)
			}
			require.NoError(t, err)
			rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
			require.NoError(t, err)
			fields, err := crdgen.FieldsOf(name, flags, rules)
			require.NoError(t, err)
			require.Empty(t, crdgen.Unmatched(name, fields, rules))
			config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
			require.NoError(t, err)
			testkit.ApplyCRDs(t, config, template, machine)
			require.Len(t, applyExample(t, filepath.Join(name, "cluster.yaml"), name, fields), 6)
		})
	}
}

// The examples that need no NodeDriver of a user's: servers, their rolling, a cluster of k3s on them, its health check, and one on hosts.
func TestExamples_builtin(t *testing.T) {
	installDrivers(t, "digitalocean", "generic")
	for file, kinds := range map[string]string{
		"digitalocean.yaml":       "Secret Secret RKECluster Cluster DigitaloceanMachineTemplate MachineDeployment",
		"rolling.yaml":            "DigitaloceanMachineTemplate MachineDeployment",
		"machinehealthcheck.yaml": "MachineHealthCheck",
		"k3s.yaml":                "Secret Cluster RKECluster RKEControlPlane RKEBootstrapTemplate DigitaloceanMachineTemplate MachineDeployment MachineDeployment",
		"hosts.yaml": "Secret Cluster RKECluster RKEControlPlane RKEBootstrapTemplate GenericMachineTemplate MachineDeployment " +
			"GenericMachine RKEBootstrap Machine",
	} {
		t.Run(file, func(t *testing.T) {
			name := "digitalocean"
			if file == "hosts.yaml" {
				name = "generic"
			}
			require.Equal(t, strings.Fields(kinds), applyExample(t, file, name, builtinFields(t)[name]))
		})
	}
}

// applyExample has the server take all of an example for a driver, strictly, and returns the kinds.
func applyExample(t *testing.T, file, name string, fields []crdgen.Field) (kinds []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "examples", filepath.Clean(file)))
	require.NoError(t, err)
	c, namespace := client.WithFieldValidation(testkit.Client(t, runtime.NewScheme()), metav1.FieldValidationStrict), testkit.Namespace(t)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &u.Object))
		kinds = append(kinds, u.GetKind())
		if kind, _, _ := unstructured.NestedString(u.Object, "type"); kind == "provisioning.cattle.io/cloud-credential" {
			values, _, err := unstructured.NestedStringMap(u.Object, "stringData")
			require.NoError(t, err)
			data := map[string][]byte{}
			for key, value := range values {
				data[key] = []byte(value)
			}
			env, err := credential.Env(name, fields, data)
			require.NoError(t, err)
			require.Positive(t, len(env)+len(credential.Files(name, fields, data)))
		}
		u.SetNamespace(namespace)
		require.NoError(t, c.Create(t.Context(), u))
	}
	return kinds
}
