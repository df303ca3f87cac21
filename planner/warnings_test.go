package planner_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/releases"
)

// Warnings about a specification do not need a machine.
func TestWarnings(t *testing.T) {
	catalogue, err := releases.Default()
	require.NoError(t, err)
	const passedOn = " It is passed on unchanged, and k3s may not start with it"
	for what, tt := range map[string]struct {
		spec    string
		running []string
		want    []string
	}{
		"nothing":                        {spec: "{}"},
		"good":                           {spec: "{kubernetesVersion: v1.36.3+k3s1, machineGlobalConfig: {kubelet-arg: [a=b], tls-san+: [a]}}", running: []string{"v1.36.3+k3s1"}},
		"an argument of ours":            {spec: "{kubernetesVersion: v1.36.3+k3s1, machineGlobalConfig: {token: x}}"},
		"an argument for agents of RKE2": {spec: "{kubernetesVersion: v1.36.3+rke2r1, machineGlobalConfig: {node-taint: [a=b:NoExecute]}}"},
		"mistyped": {spec: "{kubernetesVersion: v1.36.3+k3s1, machineGlobalConfig: {kubelet-args: [a=b]}}",
			want: []string{"spec.machineGlobalConfig: kubelet-args is not a known argument of v1.36.3+k3s1: did you mean kubelet-arg?" + passedOn}},
		"unknown, for some machines": {spec: "{kubernetesVersion: v1.36.3+k3s1, machineSelectorConfig: [{config: {}}, {config: {future+: a}}]}",
			want: []string{"spec.machineSelectorConfig[1].config: future is not a known argument of v1.36.3+k3s1." + passedOn}},
		"another patch release": {spec: "{kubernetesVersion: v1.36.99+k3s1}",
			want: []string{"v1.36.99+k3s1 is not in the catalogue of releases; Drover installs it with the data of other releases of its minor version"}},
		"an unknown release": {spec: "{kubernetesVersion: v1.99.1+k3s1, machineGlobalConfig: {kubelet-args: x}}",
			want: []string{"spec.kubernetesVersion: unknown release: the catalogue has k3s 1.33, 1.34, 1.35, 1.36, and no release of 1.99. No server gets a plan with it (KubernetesVersionUnknown)"}},
		"a downgrade": {spec: "{kubernetesVersion: v1.35.7+k3s1}", running: []string{"v1.36.3+k3s1"},
			want: []string{"spec.kubernetesVersion is v1.35.7+k3s1, and a server runs v1.36.3+k3s1: Kubernetes does not support a downgrade by a minor version, because an older version may not read the data of a newer one. " +
				"Set v1.36.3+k3s1 again, or another release of 1.36 (KubernetesVersionSkew)"}},
		"two minors up": {spec: "{kubernetesVersion: v1.36.3+k3s1}", running: []string{"v1.34.1"},
			want: []string{"spec.kubernetesVersion is v1.36.3+k3s1, and a server runs v1.34.1: Kubernetes cannot skip a minor version; upgrade to a release of 1.35 first (KubernetesVersionSkew)"}},
		"a version that cannot be read": {spec: "{kubernetesVersion: v1.36.3+k3s1}", running: []string{"latest"}},
		"another patch down":            {spec: "{kubernetesVersion: v1.36.1+k3s1}", running: []string{"v1.36.3+k3s1"}},
	} {
		t.Run(what, func(t *testing.T) {
			spec := &rkev1.RKEControlPlaneSpec{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.spec), spec))
			require.Equal(t, tt.want, planner.Warnings(catalogue, spec, tt.running))
		})
	}
	many := &rkev1.RKEControlPlaneSpec{}
	many.KubernetesVersion, many.MachineGlobalConfig = "v1.36.3+k3s1", rkev1.Config{}
	for i := range 1000 {
		value := many.MachineGlobalConfig["x"]
		require.NoError(t, json.Unmarshal([]byte("1"), &value))
		many.MachineGlobalConfig[fmt.Sprintf("unknown-%d", i)] = value
	}
	require.Len(t, planner.Warnings(catalogue, many, nil), 21)
	require.Empty(t, planner.Warnings(nil, many, nil), "without a catalogue")
}
