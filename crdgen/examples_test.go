package crdgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/testkit"
)

// TestExamples_of_third_parties: the manifests that docs/drivers.md tells users to apply fit what the API has, strictly, and their
// credential has every key that the driver needs. The checksum that a user must fill in is refused as it is, with what to do.
func TestExamples_of_third_parties(t *testing.T) {
	client, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
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
			require.Len(t, applyExample(t, client, filepath.Join(name, "cluster.yaml"), name, fields), 6)
		})
	}
}

// The example that needs no NodeDriver, and the one that rolls its machines.
func TestExamples_digitalocean(t *testing.T) {
	client, fields := installDrivers(t, "digitalocean"), builtinFields(t)["digitalocean"]
	require.Len(t, applyExample(t, client, "digitalocean.yaml", "digitalocean", fields), 6)
	require.Equal(t, []string{"DigitaloceanMachineTemplate", "MachineDeployment"}, applyExample(t, client, "rolling.yaml", "digitalocean", fields))
}

// applyExample returns the kinds of what an example for a driver has.
func applyExample(t *testing.T, client dynamic.Interface, file, name string, fields []crdgen.Field) (kinds []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "examples", filepath.Clean(file)))
	require.NoError(t, err)
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &u.Object))
		kinds = append(kinds, u.GetKind())
		switch u.GetKind() {
		case "Secret":
			var secret corev1.Secret
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &secret))
			if secret.Name == name {
				data := map[string][]byte{}
				for key, value := range secret.StringData {
					data[key] = []byte(value)
				}
				env, err := credential.Env(name, fields, data)
				require.NoError(t, err)
				require.NotEmpty(t, env)
			}
		case "Cluster":
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &clusterv1.Cluster{}))
		case "MachineDeployment":
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &clusterv1.MachineDeployment{}))
		case "RKECluster":
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &rkev1.RKECluster{}))
		default:
			resource := schema.GroupVersionResource{Group: crdgen.MachineGroup, Version: "v1", Resource: name + "machinetemplates"}
			_, err := client.Resource(resource).Namespace(testkit.Namespace(t)).Create(t.Context(), u, metav1.CreateOptions{FieldValidation: "Strict"})
			require.NoError(t, err)
		}
	}
	return kinds
}
