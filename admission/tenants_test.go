package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/drover-project/drover/admission"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// TestClusters_rendered: the annotation of the first rendering stays while the CAPI Cluster exists.
func TestClusters_rendered(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, provv1.AddToScheme(scheme))
	require.NoError(t, clusterv1.AddToScheme(scheme))
	there := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}}
	for name, test := range map[string]struct {
		before, after string
		missing       bool
		refused       bool
	}{
		"removed":                    {before: "one", refused: true},
		"changed":                    {before: "one", after: "another", refused: true},
		"removed, and it is missing": {before: "one", missing: true},
		"kept":                       {before: "one", after: "one"},
		"noted":                      {after: "one"},
		"of another name":            {before: "another"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			if !test.missing {
				builder.WithObjects(there.DeepCopy())
			}
			request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, OldObject: rendered(t, test.before), Object: rendered(t, test.after)}}
			got := (&admission.Clusters{Client: builder.Build()}).Handle(t.Context(), request)
			require.Equal(t, !test.refused, got.Allowed)
			if test.refused {
				require.Contains(t, got.Result.Message, "drover.cattle.io/rendered cannot be removed while the CAPI Cluster one exists")
			}
		})
	}
}

// rendered is a Cluster with this value of the annotation.
func rendered(t *testing.T, value string) runtime.RawExtension {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "shop"}}
	if value != "" {
		cluster.Annotations = map[string]string{provv1.RenderedAnnotation: value}
	}
	encoded, err := json.Marshal(cluster)
	require.NoError(t, err)
	return runtime.RawExtension{Raw: encoded}
}

// TestClusters_manyPools: the warnings about a Cluster of 1,000 pools are bounded, so that the API server
// passes each of them on.
func TestClusters_manyPools(t *testing.T) {
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "shop"}, Spec: provv1.ClusterSpec{RKEConfig: &provv1.RKEConfig{}}}
	for i := range 1000 {
		cluster.Spec.RKEConfig.MachinePools = append(cluster.Spec.RKEConfig.MachinePools, provv1.MachinePool{
			Name: fmt.Sprintf("%s-%d", strings.Repeat("p", 50), i), ControlPlaneRole: true, DisplayName: "a", DynamicSchemaSpec: "{}", MachineConfigRef: provv1.ConfigReference{Kind: "XConfig", Name: "x"}})
	}
	encoded, err := json.Marshal(cluster)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, provv1.AddToScheme(scheme))
	require.NoError(t, clusterv1.AddToScheme(scheme))
	raw := runtime.RawExtension{Raw: encoded}
	request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, OldObject: raw, Object: raw}}
	got := (&admission.Clusters{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}).Handle(t.Context(), request)
	require.True(t, got.Allowed)
	total := 0
	for _, warning := range got.Warnings {
		total += utf8.RuneCountInString(warning)
	}
	require.NotEmpty(t, got.Warnings)
	require.LessOrEqual(t, len(got.Warnings), 20)
	require.LessOrEqual(t, total, 4096)
}
