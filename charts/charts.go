package charts

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed drover/values.yaml drover/templates/* drover/crds/*.yaml drover/rbac/role.yaml
var files embed.FS

// Names of the manager's objects, as the chart has them.
const (
	// Name of the Deployment, service account, roles and bindings.
	Name = "drover-manager"
	// DefaultNamespace is the manager's default namespace.
	DefaultNamespace = "drover-system"
	// WebhookService is the Service through which the API server reaches the webhooks, and
	// WebhookPort the manager's port.
	WebhookService = "drover-webhooks"
	WebhookPort    = 9443
	// ReleasesConfigMap replaces the built-in catalogue of releases; only an administrator creates
	// it.
	ReleasesConfigMap = "drover-releases"
	// AgentsService is the Service of the port that agents call, and AgentsDir has the agents that
	// servers fetch.
	AgentsService = "drover-agents"
	AgentsPort    = 9345
	AgentsDir     = "/usr/share/drover/agents"
)

// Labels are on every object of an installation, also on the objects that the manager installs;
// clusterctl selects by them.
func Labels() map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":       "drover",
		"app.kubernetes.io/part-of":    "drover",
		"cluster.x-k8s.io/provider":    "infrastructure-drover",
		"clusterctl.cluster.x-k8s.io":  "",
		"app.kubernetes.io/managed-by": "drover",
	}
}

// CRDs returns our static CRDs.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return definitions[apiextensionsv1.CustomResourceDefinition]()
}

// definitions are our static CRDs in a type of the caller's.
func definitions[T any]() ([]*T, error) {
	entries, err := files.ReadDir("drover/crds")
	if err != nil {
		return nil, fmt.Errorf("listing our CRDs: %w", err)
	}
	all := make([]*T, len(entries))
	for i, entry := range entries {
		all[i] = new(T)
		if err := read("drover/crds/"+entry.Name(), all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
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
