package charts

import (
	"embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed drover/crds/*.yaml drover/rbac/role.yaml
var files embed.FS

// CRDs returns our static CRDs.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir("drover/crds")
	if err != nil {
		return nil, fmt.Errorf("listing our CRDs: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := read("drover/crds/"+entry.Name(), crd); err != nil {
			return nil, err
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// ManagerRole returns the manager's ClusterRole.
func ManagerRole() (*rbacv1.ClusterRole, error) {
	role := &rbacv1.ClusterRole{}
	return role, read("drover/rbac/role.yaml", role)
}

func read(name string, into any) error {
	data, err := files.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading embedded file %s: %w", name, err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("decoding embedded file %s: %w", name, err)
	}
	return nil
}

// Verbs of those who look and of those who change.
var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "update", "patch", "delete", "deletecollection"}
)

// userRoles go into Kubernetes' own roles view, edit and admin, so that who has one of them in a namespace may use Drover there. The
// groups of drivers' kinds hold nothing else, so that a new driver needs no new role; RBAC cannot leave their status out. ServerScans
// remove servers, which is an administrator's decision. No Secret is among them: view shows none, edit and admin do so by themselves.
func userRoles(s Settings) []*rbacv1.ClusterRole {
	driverGroups := []string{"rke-machine.cattle.io", "rke-machine-config.cattle.io"}
	clusters := []string{"rkeclusters", "rkeclustertemplates", "rkecontrolplanes", "rkebootstraps", "rkebootstraptemplates"}
	view := []rbacv1.PolicyRule{
		{APIGroups: driverGroups, Resources: []string{"*"}, Verbs: readVerbs},
		{APIGroups: []string{"rke.cattle.io"}, Resources: append(clusters, "serverscans"), Verbs: readVerbs},
	}
	edit := []rbacv1.PolicyRule{
		{APIGroups: driverGroups, Resources: []string{"*"}, Verbs: writeVerbs},
		{APIGroups: []string{"rke.cattle.io"}, Resources: clusters, Verbs: writeVerbs},
	}
	admin := []rbacv1.PolicyRule{{APIGroups: []string{"rke.cattle.io"}, Resources: []string{"serverscans"}, Verbs: writeVerbs}}
	if !s.ExternalCAPI {
		// Cluster API ships no such roles, and where it is not ours, whoever installed it decides.
		core := []string{"clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks", "machinedrainrules", "clusterclasses"}
		addons := []string{"clusterresourcesets", "clusterresourcesetbindings"}
		view = append(view, rbacv1.PolicyRule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: core, Verbs: readVerbs},
			rbacv1.PolicyRule{APIGroups: []string{"addons.cluster.x-k8s.io"}, Resources: addons, Verbs: readVerbs})
		edit = append(edit, rbacv1.PolicyRule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: core, Verbs: writeVerbs},
			rbacv1.PolicyRule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machinedeployments/scale", "machinesets/scale"},
				Verbs: []string{"get", "update", "patch"}},
			rbacv1.PolicyRule{APIGroups: []string{"addons.cluster.x-k8s.io"}, Resources: addons, Verbs: writeVerbs})
	}
	var roles []*rbacv1.ClusterRole
	for _, role := range []struct {
		name  string
		rules []rbacv1.PolicyRule
	}{{"view", view}, {"edit", edit}, {"admin", admin}} {
		// Kubernetes' edit takes in view, and admin takes in edit.
		roles = append(roles, &rbacv1.ClusterRole{Rules: role.rules, ObjectMeta: metav1.ObjectMeta{Name: "drover-" + role.name,
			Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + role.name: "true"}}})
	}
	return roles
}
