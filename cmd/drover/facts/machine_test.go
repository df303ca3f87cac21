package facts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

var kind = facts.Kind{Name: "DigitaloceanMachine", Resource: "digitaloceanmachines", Singular: "digitaloceanmachine", ShortNames: []string{"dom"}}

func TestIsMachineKind(t *testing.T) {
	for _, c := range []struct {
		resource, kind string
		want           bool
	}{
		{"digitaloceanmachines", "DigitaloceanMachine", true},
		{"digitaloceanmachines/status", "DigitaloceanMachine", false},
		{"digitaloceanmachinetemplates", "DigitaloceanMachineTemplate", false},
	} {
		require.Equal(t, c.want, facts.IsMachineKind(metav1.APIResource{Name: c.resource, Kind: c.kind}), c.resource)
	}
}

func TestKindMatches(t *testing.T) {
	for _, word := range []string{"DigitaloceanMachine", "digitaloceanmachines", "digitaloceanmachine", "dom", "digitaloceanmachine.rke-machine.cattle.io"} {
		require.True(t, kind.Matches(word), word)
	}
	for _, word := range []string{"machine", "", "digitaloceanmachine.other.group", "digitaloceanmachinetemplate"} {
		require.False(t, kind.Matches(word), word)
	}
}

// object is a machine as the API has it.
func object() map[string]any {
	return map[string]any{
		"metadata": map[string]any{
			"name": "web-1", "namespace": "shop",
			"ownerReferences": []any{
				map[string]any{"apiVersion": "apps/v1", "kind": "Machine", "name": "other", "uid": "x"},
				map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "pool-abc", "uid": "y"},
			},
		},
		"spec": map[string]any{"region": "nyc3", "providerID": "digitalocean://1", "common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:cc"}},
		"status": map[string]any{"addresses": []any{
			map[string]any{"type": "InternalIP", "address": "198.18.0.2"}, map[string]any{"type": "ExternalIP", "address": "198.18.0.3"}}},
	}
}

func TestDecodeMachine(t *testing.T) {
	m, err := facts.DecodeMachine(kind, object())
	require.NoError(t, err)
	require.Equal(t, "pool-abc", m.CAPIMachineName())
	require.Equal(t, "198.18.0.3", m.Address())
	require.Equal(t, "Pending", m.Phase())
	require.Equal(t, "digitaloceanmachine.rke-machine.cattle.io/web-1", m.Ref())
	namespace, name := m.CredentialRef()
	require.Equal(t, []string{"cattle-global-data", "cc"}, []string{namespace, name})
	for _, called := range []string{"web-1", "pool-abc", "machine/pool-abc", "dom/web-1", m.Ref()} {
		require.True(t, m.IsCalled(called), called)
	}
	for _, called := range []string{"web", "machine/web-1", "dom/pool-abc", "vsphere/web-1", ""} {
		require.False(t, m.IsCalled(called), called)
	}
}

func TestDecodeMachineRefusesNonsense(t *testing.T) {
	_, err := facts.DecodeMachine(kind, map[string]any{"status": map[string]any{"addresses": "none"}})
	require.ErrorContains(t, err, "decoding a DigitaloceanMachine")
}

func TestDriverName(t *testing.T) {
	drivers := []v3.NodeDriver{{ObjectMeta: metav1.ObjectMeta{Name: "nd-x"}, Spec: v3.NodeDriverSpec{DisplayName: "my-cloud"}, Status: v3.NodeDriverStatus{MachineKind: "MycloudMachine"}}}
	require.Equal(t, "my-cloud", facts.DriverName("MycloudMachine", drivers))
	require.Equal(t, "digitalocean", facts.DriverName("DigitaloceanMachine", drivers))
}

func TestDecodeObject(t *testing.T) {
	o := facts.DecodeObject(&unstructured.Unstructured{Object: map[string]any{
		"kind": "MachineSet", "metadata": map[string]any{"name": "s"}, "spec": map[string]any{"replicas": int64(3)},
		"status": map[string]any{"readyReplicas": int64(1), "conditions": []any{
			map[string]any{"type": "ScalingUp", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}, "nonsense"}},
	}})
	require.EqualValues(t, 3, o.Replicas)
	require.EqualValues(t, 1, o.ReadyReplicas)
	require.Len(t, o.Conditions, 1)
	require.False(t, o.Conditions[0].LastTransitionTime.IsZero())
	require.Equal(t, clusterv1.MachineSetScalingUpCondition, o.Conditions[0].Type)
}
