package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/testkit/golden"
)

const testCA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

// settings are installations as people ask for them.
func settings() map[string]charts.Settings {
	return map[string]charts.Settings{
		"least": {Image: "registry.example/drover:1"},
		"most": {
			Namespace: "machines", Image: "registry.example/drover@sha256:0123", ImagePullPolicy: "Always", ImagePullSecrets: []string{"one", "two"},
			Replicas: 3, CAPI: "external", Args: []string{"--v=1"}, Jobs: charts.JobSettings{NoProxy: `a,b "c" ${D}`, CABundle: testCA},
			Webhooks:     charts.WebhookSettings{ClientCA: testCA, APIServerCIDRs: []string{"192.0.2.1/32", "2001:db8::/64"}},
			Agents:       charts.AgentSettings{ServerURL: "https://drover.example:30345", ServiceType: "NodePort", NodePort: 30345},
			NodeSelector: map[string]string{"disk": "fast"}, Tolerations: []string{"dedicated=drover:NoSchedule", "other"},
		},
	}
}

// stream is what a user pipes into kubectl apply.
func stream(t *testing.T, objs []client.Object) string {
	t.Helper()
	var out strings.Builder
	for _, obj := range objs {
		text, err := yaml.Marshal(obj)
		require.NoError(t, err)
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return out.String()
}

func objects(t *testing.T, s charts.Settings) []client.Object {
	t.Helper()
	objs, err := charts.Objects(s)
	require.NoError(t, err)
	return objs
}

func TestObjectsAreGolden(t *testing.T) {
	for name, s := range settings() {
		t.Run(name, func(t *testing.T) {
			// The role is golden as it is: controller-gen writes it.
			objs := slices.DeleteFunc(objects(t, s), func(obj client.Object) bool {
				return obj.GetObjectKind().GroupVersionKind().Kind == "ClusterRole" && obj.GetName() == charts.Name
			})
			golden.Require(t, "testdata/"+name+".yaml", stream(t, objs))
		})
	}
}

func TestObjectsComeInTheOrderToApplyThem(t *testing.T) {
	s := settings()["most"]
	s.WithCRDs = true
	var got []string
	for _, obj := range objects(t, s) {
		got = append(got, strings.TrimPrefix(obj.GetObjectKind().GroupVersionKind().Kind+" "+obj.GetNamespace()+"/"+obj.GetName(), "/"))
		require.Equal(t, "infrastructure-drover", obj.GetLabels()["cluster.x-k8s.io/provider"], "%s", got)
		require.Equal(t, "drover", obj.GetLabels()["app.kubernetes.io/name"], "%s", got)
		require.Contains(t, obj.GetLabels(), "clusterctl.cluster.x-k8s.io")
	}
	require.Equal(t, []string{
		"Namespace /machines",
		"CustomResourceDefinition /clusters.management.cattle.io",
		"CustomResourceDefinition /nodedrivers.management.cattle.io",
		"CustomResourceDefinition /clusters.provisioning.cattle.io",
		"CustomResourceDefinition /rkebootstraps.rke.cattle.io",
		"CustomResourceDefinition /rkebootstraptemplates.rke.cattle.io",
		"CustomResourceDefinition /rkeclusters.rke.cattle.io",
		"CustomResourceDefinition /rkeclustertemplates.rke.cattle.io",
		"CustomResourceDefinition /rkecontrolplanes.rke.cattle.io",
		"CustomResourceDefinition /serverscans.rke.cattle.io",
		"ServiceAccount machines/drover-manager",
		"ClusterRole /drover-manager",
		"ClusterRoleBinding /drover-manager",
		"ClusterRole /drover-manager-aggregate",
		"ClusterRoleBinding /drover-manager-aggregate",
		"Role machines/drover-manager",
		"RoleBinding machines/drover-manager", "Role machines/drover-manager-lease", "RoleBinding machines/drover-manager-lease",
		"ClusterRole /drover-view",
		"ClusterRole /drover-edit",
		"ClusterRole /drover-admin",
		"ConfigMap machines/drover-job-ca",
		"ConfigMap machines/drover-webhook-client-ca",
		"Service machines/drover-webhooks",
		"Service machines/drover-metrics",
		"Service machines/drover-agents",
		"PodDisruptionBudget machines/drover-manager",
		"NetworkPolicy machines/drover-manager",
		"Deployment machines/drover-manager",
	}, got)
}

// Kinds with a status keep it when they are printed.
func TestDefinitionsAreWhole(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	require.Len(t, crds, 9)
	printed, statuses := objects(t, charts.Settings{Image: "x", WithCRDs: true}), map[string]bool{}
	for _, crd := range crds {
		require.Equal(t, crd.Spec, find[apiextensionsv1.CustomResourceDefinition](t, printed, crd.Name).Spec, crd.Name)
		statuses[crd.Name] = crd.Spec.Versions[0].Subresources != nil && crd.Spec.Versions[0].Subresources.Status != nil
	}
	require.Equal(t, map[string]bool{"nodedrivers.management.cattle.io": true, "clusters.management.cattle.io": true, "clusters.provisioning.cattle.io": true, "rkeclusters.rke.cattle.io": true, "rkeclustertemplates.rke.cattle.io": false,
		"rkecontrolplanes.rke.cattle.io": true, "rkebootstraps.rke.cattle.io": true, "rkebootstraptemplates.rke.cattle.io": false,
		"serverscans.rke.cattle.io": true}, statuses)
}

func TestObjects_withoutImage(t *testing.T) {
	objs, err := charts.Objects(charts.Settings{})
	require.ErrorContains(t, err, "image must be set")
	require.Empty(t, objs)
}

// Labels are the same in the chart.
func TestLabels(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("drover", "templates", "_helpers.tpl"))
	require.NoError(t, err)
	for key, value := range charts.Labels() {
		require.Regexp(t, regexp.QuoteMeta(key)+`: "?`+regexp.QuoteMeta(value)+`"?\n`, string(text))
	}
}

// What the manager may do: broad rights are those it cannot do without, and named here.
func TestManagerRoleIsNarrow(t *testing.T) {
	content, err := os.ReadFile("drover/rbac/role.yaml")
	require.NoError(t, err)
	role := &rbacv1.ClusterRole{}
	require.NoError(t, yaml.UnmarshalStrict(content, role))
	require.Equal(t, charts.Name, role.Name)
	foreignKinds := []string{"addons.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io",
		"rke-machine.cattle.io", "rke-machine-config.cattle.io"}
	for _, rule := range role.Rules {
		require.NotContains(t, rule.Verbs, "*", "%v", rule)
		require.NotContains(t, rule.APIGroups, "*", "%v", rule)
		require.Empty(t, rule.NonResourceURLs)
		for _, verb := range []string{"escalate", "bind", "impersonate"} {
			require.NotContains(t, rule.Verbs, verb, "%v", rule)
		}
		if slices.Contains(rule.Resources, "*") {
			require.Subset(t, foreignKinds, rule.APIGroups, "kinds of other providers and drivers are not known beforehand")
		}
		for _, resource := range []string{"pods/exec", "pods/attach", "pods/portforward", "nodes", "nodes/proxy"} {
			require.NotContains(t, rule.Resources, resource, "it never enters a pod")
		}
		if slices.Contains(rule.Resources, "serviceaccounts/token") {
			require.Equal(t, []string{"create"}, rule.Verbs, "an agent gets a token of its own account; RBAC cannot say which accounts are agents'")
		}
		if slices.Contains(rule.Resources, "secrets") {
			require.NotContains(t, rule.Verbs, "deletecollection")
		}
	}
}

// Each version of the chart must be in the table clusterctl reads, or it could not be installed.
func TestVersionOfTheChartIsInTheReleaseSeries(t *testing.T) {
	var chart struct{ Name, Version, AppVersion string }
	readYAML(t, filepath.Join("drover", "Chart.yaml"), &chart)
	var metadata struct {
		APIVersion, Kind string
		ReleaseSeries    []struct {
			Major, Minor int
			Contract     string
		} `json:"releaseSeries"`
	}
	readYAML(t, "metadata.yaml", &metadata)
	require.Equal(t, "drover", chart.Name)
	require.Equal(t, "Metadata", metadata.Kind)
	var series []string
	for _, one := range metadata.ReleaseSeries {
		require.Equal(t, "v1beta2", one.Contract)
		series = append(series, fmt.Sprintf("%d.%d", one.Major, one.Minor))
	}
	require.Contains(t, series, strings.Join(strings.SplitN(strings.TrimPrefix(chart.Version, "v"), ".", 3)[:2], "."))
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into))
}

// A value that a template asks for and values.yaml does not have is one nobody can find out about.
func TestEveryValueOfTheChartIsDocumented(t *testing.T) {
	var values map[string]any
	readYAML(t, filepath.Join("drover", "values.yaml"), &values)
	templates, err := filepath.Glob(filepath.Join("drover", "templates", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, templates)
	used := map[string]bool{}
	for _, path := range templates {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`\.Values\.([A-Za-z.]+)`).FindAllStringSubmatch(string(text), -1) {
			used[match[1]] = true
			var at any = values
			for name := range strings.SplitSeq(match[1], ".") {
				branch, ok := at.(map[string]any)
				require.True(t, ok, match[1])
				require.Contains(t, branch, name, "%s uses .Values.%s", path, match[1])
				at = branch[name]
			}
		}
	}
	for name, value := range values {
		if branch, ok := value.(map[string]any); ok && !used[name] {
			for key := range branch {
				require.True(t, used[name+"."+key], "%s.%s is documented and read by nobody", name, key)
			}
			continue
		}
		require.True(t, used[name], "%s is documented and read by nobody", name)
	}
}

// TestCRDs_explainThemselves: `kubectl explain` has a sentence for each field.
func TestCRDs_explainThemselves(t *testing.T) {
	crds, err := charts.CRDs()
	require.NoError(t, err)
	fields := 0
	for _, crd := range crds {
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			schema := root.Properties[part]
			fields += describe(t, crd.Spec.Names.Kind+"."+part, &schema)
		}
	}
	require.Greater(t, fields, 200)
}

// describe returns how many fields a schema has.
func describe(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) int {
	t.Helper()
	count := 0
	for name, field := range schema.Properties {
		require.NotEmpty(t, field.Description, "%s.%s", path, name)
		count += 1 + describe(t, path+"."+name, &field)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		count += describe(t, path, schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		count += describe(t, path, schema.AdditionalProperties.Schema)
	}
	return count
}
