package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
)

// TestClusters_rancher: Clusters in Rancher's shape are accepted, and their later updates too.
func TestClusters_rancher(t *testing.T) {
	files, err := filepath.Glob("../provisioning/testdata/rancher/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 12)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(content), "\n---\n")
		raw, err := yaml.YAMLToJSON([]byte(first))
		require.NoError(t, err)
		request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw}}}
		created := (&admission.Clusters{}).Handle(t.Context(), request)
		require.True(t, created.Allowed, "%s: %v", file, created.Result)
		request.Operation, request.OldObject = admissionv1.Update, request.Object
		updated := (&admission.Clusters{}).Handle(t.Context(), request)
		require.True(t, updated.Allowed, "%s: %v", file, updated.Result)
	}
}
