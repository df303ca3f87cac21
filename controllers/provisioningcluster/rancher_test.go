package provisioningcluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/testkit"
)

// TestReconcile_rancher: manifests in Rancher's shape, with their Configs, are accepted by an API server
// that validates strictly, and their objects are accepted too. A second reconcile writes nothing.
func TestReconcile_rancher(t *testing.T) {
	files, err := filepath.Glob("../../provisioning/testdata/rancher/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 12)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			w := newWorld(t, nil)
			strict := client.WithFieldValidation(w.client, metav1.FieldValidationStrict)
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(content), "\n---\n") {
				obj := &unstructured.Unstructured{}
				raw, err := yaml.YAMLToJSONStrict([]byte(document))
				require.NoError(t, err)
				require.NoError(t, obj.UnmarshalJSON(raw))
				obj.SetNamespace(w.cluster.Namespace)
				require.NoError(t, strict.Create(t.Context(), obj))
				if obj.GetKind() == "Cluster" {
					w.cluster = &provv1.Cluster{ObjectMeta: w.named(obj.GetName())}
				}
			}
			w.reconcile(t)
			switch {
			case w.cluster.Spec.RKEConfig == nil:
				w.expectHeld(t, provv1.ImportedReason)
			case w.cluster.Spec.RKEConfig.InfrastructureRef != nil:
				w.expectHeld(t, provv1.ExternalInfrastructureReason)
			default:
				w.expectRendered(t)
			}
			require.Zero(t, w.writes(t, func() { w.reconcile(t) }))
		})
	}
}

// expectHeld requires that nothing was rendered.
func (w *world) expectHeld(t *testing.T, reason string) {
	t.Helper()
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionFalse, reason)
	require.Empty(t, w.deployments(t))
}

// expectRendered requires that the objects match the Cluster.
func (w *world) expectRendered(t *testing.T) {
	t.Helper()
	testkit.ExpectCondition(t, w.cluster, provv1.RKEClusterCondition, metav1.ConditionTrue, provv1.RenderedReason)
	require.NotEmpty(t, w.deployments(t))
}

// deployments are the MachineDeployments of the namespace, by name.
func (w *world) deployments(t *testing.T) map[string]*clusterv1.MachineDeployment {
	t.Helper()
	list := &clusterv1.MachineDeploymentList{}
	require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(w.cluster.Namespace)))
	found := map[string]*clusterv1.MachineDeployment{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}
