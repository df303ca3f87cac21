package crdgen_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
)

func TestIncompatibleFindsWhatObjectsWouldSufferFrom(t *testing.T) {
	old := []crdgen.Field{
		{Name: "zone", Flag: "a-zone", Type: crdgen.String},
		{Name: "size", Flag: "a-size", Type: crdgen.String},
		{Name: "key", Flag: "a-key", Type: crdgen.String, File: true},
		{Name: "same", Flag: "a-same", Type: crdgen.Int, Default: int64(1)},
	}
	next := []crdgen.Field{
		{Name: "size", Flag: "a-size", Type: crdgen.Int},
		{Name: "key", Flag: "a-key", Type: crdgen.String},
		{Name: "same", Flag: "a-renamed", Type: crdgen.Int, Usage: "new text", Secret: true},
		{Name: "new", Flag: "a-new", Type: crdgen.Bool},
	}
	changes := crdgen.Incompatible(old, next)
	var texts []string
	for _, change := range changes {
		texts = append(texts, change.String())
	}
	require.Equal(t, []string{
		"key is reinterpreted from content to path",
		"size is retyped from string to int",
		"zone (string) is dropped",
	}, texts)
	require.Empty(t, crdgen.Incompatible(old, old))

	used := crdgen.FieldsInUse(
		map[string]any{"zone": "z", "same": int64(1), "common": map[string]any{}},
		map[string]any{"zone": "", "kind": "AConfig", "metadata": map[string]any{}})
	require.Equal(t, map[string]int{"zone": 2, "same": 1}, used)
}

func TestAggregatedClusterRoleCoversEveryDriver(t *testing.T) {
	role := crdgen.AggregatedClusterRole()
	for _, manager := range []string{"", "kubeadm.controlplane.", "rke2.controlplane."} {
		require.Equal(t, "true", role.Labels[manager+"cluster.x-k8s.io/aggregate-to-manager"])
	}
	require.Len(t, role.Rules, 2)
	for _, rule := range role.Rules {
		require.Equal(t, []string{"rke-machine.cattle.io", "rke-machine-config.cattle.io"}, rule.APIGroups)
	}
	require.Subset(t, role.Rules[0].Verbs, []string{"get", "list", "watch", "create", "update", "patch", "delete"})
}
