package capi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/testkit/access"
)

// notEmbedded are the groups and resources of Cluster API's own role that our embedded core does not need, and why.
var notEmbedded = map[string]string{
	"ipam.cluster.x-k8s.io":                                 "nothing of ours gives addresses out, and its CRDs are not installed",
	"customresourcedefinitions.apiextensions.k8s.io":        "the migrator of stored versions does not run: our CRDs have one version",
	"customresourcedefinitions/status.apiextensions.k8s.io": "the same",
}

// TestRules: what the embedded core may do is what Cluster API's own manager may do, of the version in go.mod.
func TestRules(t *testing.T) {
	role := coreRole(t)
	got := access.Compare(access.Grants(access.Markers(t, ".")), access.Grants(role.Rules))
	require.Empty(t, got.Unused, "granted, and Cluster API does not ask for it")
	seen := map[string]bool{}
	for _, line := range got.Missing {
		key := reasonKey(line)
		require.Contains(t, notEmbedded, key, "Cluster API asks for it, and it is not granted: %s", line)
		seen[key] = true
	}
	require.Len(t, seen, len(notEmbedded), "notEmbedded has entries that Cluster API does not ask for")
}

// reasonKey is the group of what only one group has, else resource and group, of a line such as "get pods.group name".
func reasonKey(line string) string {
	resource := strings.Fields(line)[1]
	_, group, _ := strings.Cut(resource, ".")
	if _, whole := notEmbedded[group]; whole {
		return group
	}
	return resource
}

// coreRole is the role in Cluster API's module.
func coreRole(t *testing.T) rbacv1.ClusterRole {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "core", "config", "rbac", "role.yaml"))
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	require.NoError(t, yaml.UnmarshalStrict(content, &role))
	return role
}
