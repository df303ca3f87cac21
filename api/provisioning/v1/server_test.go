package v1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := charts.CRDs()
	if err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(crds...))
}

// object is a Cluster with this specification.
func object(t *testing.T, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	content := map[string]any{}
	raw, err := yaml.YAMLToJSON([]byte("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nspec: " + spec))
	require.NoError(t, err)
	require.NoError(t, obj.UnmarshalJSON(raw), "%v", content)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// pool is a Cluster with one pool of these fields.
func pool(fields string) string {
	return `{rkeConfig: {machinePools: [{name: a, machineConfigRef: {kind: DigitaloceanConfig, name: a}, ` + fields + `}]}}`
}

// TestCluster_schema: the API server rejects what cannot work, with a message that says what is right.
func TestCluster_schema(t *testing.T) {
	c := testkit.Client(t, runtime.NewScheme())
	namespace := testkit.Namespace(t)
	for name, test := range map[string]struct{ spec, refusal string }{
		"minimal":                        {`{}`, ""},
		"a pool":                         {pool(`workerRole: true`), ""},
		"null where Rancher may":         {`{rkeConfig: {machinePools: null, etcdSnapshotCreate: null, rotateCertificates: null}}`, ""},
		"no distribution":                {`{kubernetesVersion: v1.36.3, rkeConfig: {}}`, "kubernetesVersion is a release of k3s or RKE2"},
		"an imported cluster":            {`{kubernetesVersion: v1.36.3}`, ""},
		"no role":                        {pool(`quantity: 1`), "a pool has a role"},
		"a negative quantity":            {pool(`workerRole: true, quantity: -1`), "quantity"},
		"one bound alone":                {pool(`workerRole: true, autoscalingMinSize: 1`), "are set together"},
		"bounds in another order":        {pool(`workerRole: true, autoscalingMinSize: 3, autoscalingMaxSize: 2`), "not larger than autoscalingMaxSize"},
		"servers to none":                {pool(`etcdRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 2`), "larger than 0"},
		"a short name of hosts":          {pool(`workerRole: true, hostnameLengthLimit: 9`), "between 10 and 63"},
		"no way to replace":              {pool(`workerRole: true, rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}`), "not both 0"},
		"a range":                        {pool(`workerRole: true, unhealthyRange: "1-3"`), "unhealthyRange"},
		"no kind":                        {pool(`workerRole: true, machineConfigRef: {kind: Digitalocean, name: a}`), "machineConfigRef.kind"},
		"a template of another provider": {pool(`workerRole: true, machineConfigRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachineTemplate, name: a}`), ""},
		"a template of ours":             {pool(`workerRole: true, machineConfigRef: {apiVersion: rke-machine-config.cattle.io/v1, kind: DigitaloceanMachineTemplate, name: a}`), "machineConfigRef.kind"},
		"two pools of one name": {`{rkeConfig: {machinePools: [{name: a, workerRole: true, machineConfigRef: {kind: AConfig, name: a}}, {name: a, workerRole: true, machineConfigRef: {kind: AConfig, name: a}}]}}`,
			"Duplicate value"},
		"a pool's name": {`{rkeConfig: {machinePools: [{name: A_b, workerRole: true, machineConfigRef: {kind: AConfig, name: a}}]}}`, "machinePools"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), object(t, namespace, "one", test.spec), client.DryRunAll)
			if test.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refusal)
		})
	}
	require.ErrorContains(t, c.Create(t.Context(), object(t, namespace, strings.Repeat("a", 64), "{}")), "at most 63 characters")
	require.ErrorContains(t, c.Create(t.Context(), object(t, namespace, "a.b", "{}")), "no dot")
}

// TestCluster_changes: what servers cannot follow is rejected.
func TestCluster_changes(t *testing.T) {
	c := testkit.Client(t, runtime.NewScheme())
	namespace := testkit.Namespace(t)
	first := `{kubernetesVersion: v1.36.3+k3s1, rkeConfig: {dataDirectories: {k8sDistro: /data}, machinePools: [{name: a, workerRole: true, machineConfigRef: {kind: AConfig, name: a}}]}}`
	require.NoError(t, c.Create(t.Context(), object(t, namespace, "one", first)))
	for name, test := range map[string]struct{ from, to, refusal string }{
		"roles":            {"workerRole: true", "workerRole: true, etcdRole: true", "roles of a pool cannot be changed"},
		"the distribution": {"+k3s1", "+rke2r1", "stays with its distribution"},
		"a directory":      {"/data", "/other", "dataDirectories cannot be changed"},
		"no rkeConfig":     {first, `{kubernetesVersion: v1.36.3+k3s1}`, "rkeConfig cannot be added or removed"},
		"a renamed pool":   {"name: a, workerRole: true", "name: b, etcdRole: true", ""},
		"a version":        {"v1.36.3", "v1.36.4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			stored := object(t, namespace, "one", "{}")
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
			next := object(t, namespace, "one", strings.Replace(first, test.from, test.to, 1))
			next.SetResourceVersion(stored.GetResourceVersion())
			err := c.Update(t.Context(), next, client.DryRunAll)
			if test.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.refusal)
		})
	}
}

// TestCluster_help: kubectl explain shows help for each field.
func TestCluster_help(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	fields := 0
	for _, crd := range crds {
		if crd.Name != "clusters."+provv1.GroupVersion.Group {
			continue
		}
		walk(t, "", *crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &fields)
	}
	require.Greater(t, fields, 200)
}

// walk requires a description of each field.
func walk(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps, fields *int) {
	t.Helper()
	for name, property := range schema.Properties {
		at := path + "." + name
		if at != ".metadata" {
			*fields++
			require.NotEmpty(t, property.Description, at)
		}
		walk(t, at, property, fields)
		if property.Items != nil && property.Items.Schema != nil {
			walk(t, at+"[]", *property.Items.Schema, fields)
		}
		if property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil {
			walk(t, at+"{}", *property.AdditionalProperties.Schema, fields)
		}
	}
}
