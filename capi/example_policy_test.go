package capi_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

// The policy that is offered for an upstream Cluster API does what the embedded one does by itself.
func TestExamplePolicy(t *testing.T) {
	content, err := os.ReadFile("../examples/clusterclass-namespaces.yaml")
	require.NoError(t, err)
	c := testkit.Client(t, newScheme(t))
	for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(obj)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, c.Create(t.Context(), obj))
		t.Cleanup(func() { require.NoError(t, c.Delete(testContext(t), obj)) })
	}
	namespace := testkit.Namespace(t)
	try := func(class string) error {
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}}
		cluster.Spec.Topology = clusterv1.Topology{Version: "v1.34.0", ClassRef: clusterv1.ClusterClassRef{Namespace: class, Name: "class"}}
		return c.Create(t.Context(), cluster, client.DryRunAll)
	}
	testkit.Eventually(t, patience, func() error {
		if try("victim") == nil {
			return errors.New("the policy is not in force")
		}
		return nil
	})
	require.ErrorContains(t, try("victim"), "ClusterClasses of its own namespace")
	for _, allowed := range []string{"", namespace} {
		require.NoError(t, try(allowed), fmt.Sprintf("class in %q", allowed))
	}
}
