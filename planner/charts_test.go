package planner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
)

const chartsPath = "/var/lib/rancher/k3s/server/manifests/rancher/managed-chart-config.yaml"

// TestChartValues: the values arrive in the HelmChartConfig as they were written.
func TestChartValues(t *testing.T) {
	for name, tt := range map[string]struct{ spec, values string }{
		"numbers":                  {`chartValues: {traefik: {replicas: 3, size: 123456789012345678, ratio: 1.5}}`, `{"ratio":1.5,"replicas":3,"size":123456789012345678}`},
		"markup":                   {`chartValues: {traefik: {text: "<a> & 'b': \"c\"\n- d"}}`, `{"text":"<a> & 'b': \"c\"\n- d"}`},
		"null removes a default":   {`chartValues: {traefik: {service: null}}`, `{"service":null}`},
		"a management Cluster":     {`{managementClusterName: c-m-abcdefgh, chartValues: {traefik: {a: 1}}}`, `{"a":1,"global":{"cattle":{"clusterId":"c-m-abcdefgh"}}}`},
		"the user's id":            {`{managementClusterName: c-m-abcdefgh, chartValues: {traefik: {global: {cattle: {clusterId: mine}}}}}`, `{"global":{"cattle":{"clusterId":"mine"}}}`},
		"global is something else": {`{managementClusterName: c-m-abcdefgh, chartValues: {traefik: {global: text}}}`, `{"global":"text"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spec(tt.spec)
			require.NoError(t, planner.CheckSpec(&w.cluster.Spec))
			w.machine("server-1", "{roles: etcd control-plane worker}")
			w.plan()
			p, err := plan.Decode(w.machines["server-1"].Secret.Data[plan.KeyPlan])
			require.NoError(t, err)
			manifest := strings.Join(parts(t, p)[chartsPath][1:], "\n")
			config := struct {
				APIVersion, Kind string
				Metadata         struct{ Name, Namespace string }
				Spec             struct{ ValuesContent string }
			}{}
			require.NoError(t, yaml.Unmarshal([]byte(strings.TrimPrefix(manifest, "---\n")), &config))
			require.Equal(t, "helm.cattle.io/v1 HelmChartConfig kube-system/traefik", config.APIVersion+" "+config.Kind+" "+config.Metadata.Namespace+"/"+config.Metadata.Name)
			require.Equal(t, tt.values, config.Spec.ValuesContent)
			values, fromYAML := map[string]any{}, map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(tt.values), &values))
			require.NoError(t, yaml.Unmarshal([]byte(config.Spec.ValuesContent), &fromYAML))
			require.Equal(t, values, fromYAML)
		})
	}
}

// TestChartValues_invalid: an invalid chart value is an error where the user writes it, and reaches
// no server. No error quotes a value.
func TestChartValues_invalid(t *testing.T) {
	for values, says := range map[string]string{
		`{"Traefik": {"a": 1}}`: `spec.chartValues: the chart's name "Traefik" is not a DNS label`,
		`{"a/b": {}}`:           `spec.chartValues: the chart's name "a/b" is not a DNS label`,
		`{"": {}}`:              `spec.chartValues: the chart's name "" is not a DNS label`,
		`{"` + strings.Repeat("a", 64) + `": {}}`:                    "is not a DNS label",
		`{"traefik": "secret: 1"}`:                                   "spec.chartValues.traefik must be a map of Helm values, and is text",
		`{"traefik": ["secret"]}`:                                    "spec.chartValues.traefik must be a map of Helm values, and is a list",
		"{\"traefik\": {\"a\": \"secret\u0080\"}}":                   "spec.chartValues.traefik is not valid YAML",
		"{\"traefik\": {\"secret\u007f\": \"b\"}}":                   "spec.chartValues.traefik is not valid YAML",
		`{"traefik": {"a": "` + strings.Repeat("x", 256<<10) + `"}}`: "spec.chartValues has ",
	} {
		w := newWorld(t)
		charts := rkev1.Config{}
		require.NoError(t, json.Unmarshal([]byte(values), &charts))
		w.cluster.Spec.ChartValues = charts
		err := planner.CheckSpec(&w.cluster.Spec)
		require.ErrorContains(t, err, says, "%.100s", values)
		require.NotContains(t, err.Error(), "secret")
		w.machine("server-1", "{roles: etcd control-plane worker}")
		r := planner.Plan(w.snapshot())
		for _, v := range r.Machines {
			require.Nil(t, v.Delivery, "%.100s", values)
			require.Equal(t, rkev1.ConfigInvalidReason, v.Reason)
			require.Contains(t, v.Message, says)
		}
	}
}
