package provisioning_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/randfill"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/provisioning"
)

// notRendered are fields that decide whether and how a pool is rendered, not what its objects contain,
// with the reason.
var notRendered = map[string]string{
	"rkeConfig":                                         "its fields are checked one by one",
	"rkeConfig.machinePools":                            "the same",
	"rkeConfig.machineReplacement":                      "it decides when a changed Config takes effect",
	"rkeConfig.infrastructureRef":                       "the Cluster is held: ExternalInfrastructure",
	"rkeConfig.machinePools[].machineConfigRef":         "names the Config",
	"rkeConfig.machinePools[].machineOS":                "windows is a finding, linux is the default",
	"rkeConfig.machinePools[].etcdRole":                 "a worker pool with a server role is a finding",
	"rkeConfig.machinePools[].controlPlaneRole":         "the same",
	"rkeConfig.machinePools[].workerRole":               "it is true in the example",
	"rkeConfig.machinePools[].name":                     "another name is another pool, without a Config here",
	"rkeConfig.machinePools[].drainBeforeDeleteTimeout": "only with drainBeforeDelete",
	"rkeConfig.machinePools[].nodeStartupTimeout":       "only with unhealthyNodeTimeout",
	"rkeConfig.machinePools[].maxUnhealthy":             "only with unhealthyNodeTimeout",
	"rkeConfig.machinePools[].unhealthyRange":           "only with unhealthyNodeTimeout",
	"rkeConfig.machinePools[].autoscalingMinSize":       "only with autoscalingMaxSize",
	"rkeConfig.machinePools[].autoscalingMaxSize":       "only with autoscalingMinSize",
}

// TestFields: each field of a Cluster changes a rendered object, or is reported as not acted on.
func TestFields(t *testing.T) {
	checked := 0
	check := func(path string, of func(*provv1.Cluster) reflect.Value) {
		fields := of(load(t, "testdata/workers.yaml").Cluster).Type()
		for i := range fields.NumField() {
			name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
			at := path + name
			if name == "" || notRendered[at] != "" {
				continue
			}
			in := load(t, "testdata/workers.yaml")
			in.Cluster.Spec.RKEConfig.MachinePools[2].Paused, in.Cluster.Spec.RKEConfig.MachinePools[2].DrainBeforeDelete = false, false
			before, err := provisioning.Render(in)
			require.NoError(t, err)
			was, ignored := print(t, before), provisioning.NotActedOn(in.Cluster)
			field := of(in.Cluster).Field(i)
			randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).MaxDepth(20).Funcs(
				func(value *apiextensionsv1.JSON, _ randfill.Continue) { value.Raw = []byte(`{"a":"b"}`) },
			).Fill(field.Addr().Interface())
			truth(field)
			after, err := provisioning.Render(in)
			require.NoError(t, err)
			require.True(t, was != print(t, after) || len(provisioning.NotActedOn(in.Cluster)) > len(ignored), "%s has no effect, and nothing says so", at)
			checked++
		}
	}
	spec := func(c *provv1.Cluster) reflect.Value { return reflect.ValueOf(&c.Spec).Elem() }
	config := func(c *provv1.Cluster) reflect.Value { return reflect.ValueOf(c.Spec.RKEConfig).Elem() }
	check("", spec)
	check("rkeConfig.", config)
	check("rkeConfig.", func(c *provv1.Cluster) reflect.Value {
		return reflect.ValueOf(&c.Spec.RKEConfig.ClusterConfiguration).Elem()
	})
	check("rkeConfig.machinePools[].", func(c *provv1.Cluster) reflect.Value {
		return reflect.ValueOf(&c.Spec.RKEConfig.MachinePools[2]).Elem()
	})
	require.Greater(t, checked, 40)
}

// truth sets booleans to true: a random one may be false.
func truth(value reflect.Value) {
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Pointer:
		truth(value.Elem())
	case reflect.Struct:
		for _, field := range value.Fields() {
			if field.CanSet() {
				truth(field)
			}
		}
	default:
	}
}
