package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// chartsManifest is the file of the chart values below the data directory, where Rancher's planner
// has it.
const chartsManifest = "/server/manifests/rancher/managed-chart-config.yaml"

// charts returns the manifest of the chart values. Without chart values, the file exists only if an
// earlier plan had it: the distribution deletes objects that a manifest no longer has, and keeps
// the objects of a manifest that is gone.
func (l *look) charts() ([]plan.File, error) {
	content, err := l.chartManifest()
	if err != nil {
		return nil, err
	}
	path := l.dataDir() + chartsManifest
	if d := l.progress.delivered; len(content) == 0 && (d == nil || !slices.Contains(d.Paths, path)) {
		return nil, nil
	}
	file := plan.NewFile(path, "0600", content)
	file.Dynamic = true
	return []plan.File{file}, nil
}

// chartConfigs renders spec.chartValues, once for all servers.
func (p *planner) chartConfigs() ([]byte, error) {
	content, err := chartConfigs(p.Spec.ChartValues, p.Spec.ManagementClusterName)
	if err != nil {
		return nil, because(rkev1.ConfigInvalidReason, "%v", err)
	}
	return content, nil
}

// chartConfigs renders one HelmChartConfig for each chart with values
// (docs.k3s.io/add-ons/helm, "Customizing Packaged Components with HelmChartConfig"). Like Rancher,
// it gives each chart the name of the management Cluster as global.cattle.clusterId. Errors name the
// chart and quote no value: a value may be a secret.
func chartConfigs(charts rkev1.Config, managementCluster string) ([]byte, error) {
	var manifest bytes.Buffer
	for _, chart := range slices.Sorted(maps.Keys(charts)) {
		if problems := validation.IsDNS1123Label(chart); len(problems) > 0 {
			return nil, fmt.Errorf("spec.chartValues: the chart's name %.100q is not a DNS label of at most 63 lower-case letters, digits and dashes", chart)
		}
		values, err := chartValues(charts[chart], managementCluster)
		if err != nil {
			return nil, fmt.Errorf("spec.chartValues.%s %w", chart, err)
		}
		if len(values) == 0 {
			continue
		}
		config, err := encode(map[string]any{
			"apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig",
			"metadata": map[string]any{"name": chart, "namespace": "kube-system"},
			"spec":     map[string]any{"valuesContent": string(values)},
		})
		if err != nil {
			return nil, err
		}
		manifest.WriteString("---\n")
		manifest.Write(config)
	}
	return manifest.Bytes(), nil
}

// chartValues returns the values of a chart as JSON, which is YAML; nil if there are none.
func chartValues(raw apiextensionsv1.JSON, managementCluster string) ([]byte, error) {
	value, err := decode(raw)
	if err != nil {
		return nil, err
	}
	values, isMap := value.(map[string]any)
	if value != nil && !isMap {
		return nil, fmt.Errorf("must be a map of Helm values, and is %s", described(value))
	}
	if len(values) == 0 {
		return nil, nil
	}
	if managementCluster != "" {
		nameCluster(values, managementCluster)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(values); err != nil {
		return nil, errors.New("cannot be encoded")
	}
	text := bytes.TrimSpace(out.Bytes())
	// YAML allows fewer characters than JSON.
	if _, err := yaml.YAMLToJSON(text); err != nil {
		return nil, errors.New("is not valid YAML: remove control characters from its keys and values")
	}
	return text, nil
}

// nameCluster sets global.cattle.clusterId, unless the user gave it, or another value in its place.
func nameCluster(values map[string]any, managementCluster string) {
	for _, key := range []string{"global", "cattle"} {
		if values[key] == nil {
			values[key] = map[string]any{}
		}
		below, isMap := values[key].(map[string]any)
		if !isMap {
			return
		}
		values = below
	}
	if _, given := values["clusterId"]; !given {
		values["clusterId"] = managementCluster
	}
}
