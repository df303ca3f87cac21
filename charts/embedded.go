package charts

import (
	"embed"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
