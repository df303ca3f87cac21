package provisioning

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// TestChanges changes each field of a pool, and shows how it reaches machines.
func TestChanges(t *testing.T) {
	rows := []struct{ field, value, want string }{
		{"displayName", "Web", ""},
		{"labels", "{tier: web}", ReachesMachines},
		{"taints", "[{key: a, effect: NoSchedule}]", ReachesMachines},
		{"cloudCredentialSecretName", "other", ReachesMachines},
		{"paused", "true", ReachesSettings},
		{"drainBeforeDelete", "true", ReachesSettings},
		{"drainBeforeDeleteTimeout", "1m", ""}, // without drainBeforeDelete
		{"rollingUpdate", "{maxSurge: 2}", ReachesSettings},
		{"machineDeploymentLabels", "{a: b}", ReachesSettings},
		{"machineDeploymentAnnotations", "{a: b}", ReachesSettings},
		{"autoscalingMinSize", "1", ""}, // without autoscalingMaxSize
		{"autoscalingMaxSize", "2", ""},
		{"nodeStartupTimeout", "1m", ""}, // without unhealthyNodeTimeout
		{"unhealthyNodeTimeout", "5m", ReachesSettings},
		{"maxUnhealthy", "40%", ""},
		{"unhealthyRange", "'[1-2]'", ""},
		{"machineOS", "linux", ""},
		{"dynamicSchemaSpec", "'{}'", ""},
		{"hostnameLengthLimit", "20", ReachesNewMachines},
		{"userdata", "{inlineUserdata: x}", ""},
		{"etcdRole", "true", ReachesMachines}, {"controlPlaneRole", "true", ReachesMachines}, {"workerRole", "false", ReachesMachines},
	}
	for _, tt := range rows {
		t.Run(tt.field, func(t *testing.T) {
			before := clusterOf(t, "{name: web, workerRole: true, machineConfigRef: {kind: AcmeConfig, name: web}}")
			after := clusterOf(t, fmt.Sprintf("{name: web, workerRole: true, machineConfigRef: {kind: AcmeConfig, name: web}, %s: %s}", tt.field, tt.value))
			changes, err := Changes(before, after)
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, changes)
				return
			}
			require.Equal(t, []Change{{"rkeConfig.machinePools[web]." + tt.field, tt.want}}, changes)
		})
	}
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[provv1.MachinePool]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	require.Len(t, names, len(rows)+len(previewed), "a field of a pool is in no row")
}

func clusterOf(t *testing.T, pool string) *provv1.Cluster {
	t.Helper()
	cluster := &provv1.Cluster{}
	text := "{metadata: {name: shop, namespace: default}, spec: {kubernetesVersion: v1.36.3+k3s1, rkeConfig: {machinePools: [" + pool + "]}}}"
	pool = strings.ReplaceAll(text, ", workerRole: true, machineConfigRef: {kind: AcmeConfig, name: web}, workerRole: false", ", machineConfigRef: {kind: AcmeConfig, name: web}")
	require.NoError(t, yaml.UnmarshalStrict([]byte(pool), cluster))
	return cluster
}
