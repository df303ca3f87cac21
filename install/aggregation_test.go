package install_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/install"
	"github.com/drover-project/drover/testkit"
)

// The managers of Cluster API's core and of KubeadmControlPlane, as their module has them, may clone our templates: a real cluster gathers
// our role into theirs.
func TestObjects_giveOtherManagersTheirRights(t *testing.T) {
	config := testkit.Fresh(t, testkit.WithControllers())
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme(t)})
	require.NoError(t, err)
	require.NoError(t, install.Objects(t.Context(), c, nil))
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	require.NoError(t, err)
	for _, manager := range []string{"core", "controlplane/kubeadm"} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), manager, "config/rbac/aggregated_role.yaml"))
		require.NoError(t, err)
		role := &rbacv1.ClusterRole{}
		require.NoError(t, yaml.UnmarshalStrict(content, role))
		role.Name = strings.ReplaceAll(manager, "/", "-")
		require.NoError(t, c.Create(t.Context(), role))
		testkit.Eventually(t, time.Minute, func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
				return err
			}
			for _, group := range []string{"rke-machine.cattle.io", "rke.cattle.io"} {
				if !slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
					return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Verbs, "list") && slices.Contains(rule.Verbs, "create")
				}) {
					return fmt.Errorf("%s may not clone templates of %s: %v", manager, group, role.Rules)
				}
			}
			return nil
		})
	}
}
