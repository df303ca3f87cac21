package admission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// TestClusters: a Cluster is checked as the RKEControlPlane that it becomes.
func TestClusters(t *testing.T) {
	for name, test := range map[string]struct{ before, spec, refusal, warning string }{
		"valid":               {spec: `{kubernetesVersion: v1.36.3+k3s1, rkeConfig: {machineGlobalConfig: {cni: calico}}}`},
		"imported":            {spec: `{}`},
		"an invalid argument": {spec: `{rkeConfig: {machineGlobalConfig: {cluster-cidr: here}}}`, refusal: "spec.rkeConfig.machineGlobalConfig"},
		"too large":           {spec: `{rkeConfig: {machineGlobalConfig: {a: "` + strings.Repeat("x", 300<<10) + `"}}}`, refusal: "spec.rkeConfig.machineGlobalConfig"},
		"variables":           {spec: `{agentEnvVars: [{name: A, value: "` + strings.Repeat("x", 70<<10) + `"}], rkeConfig: {}}`, refusal: "spec.agentEnvVars"},
		"a label of Drover":   {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, labels: {rke.cattle.io/etcd-role: "true"}, machineConfigRef: {kind: XConfig, name: a}}]}}`, refusal: "spec.rkeConfig.machinePools[a].labels has rke.cattle.io/etcd-role"},
		"an annotation of CAPI": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, machineDeploymentAnnotations: {cluster.x-k8s.io/paused: ""}, machineConfigRef: {kind: XConfig, name: a}}]}}`,
			refusal: "spec.rkeConfig.machinePools[a].machineDeploymentAnnotations has cluster.x-k8s.io/paused"},
		"a label for Nodes": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, labels: {node.cluster.x-k8s.io/a: b, team: shop}, machineConfigRef: {kind: XConfig, name: a}}]}}`},
		"a changed range": {before: `{rkeConfig: {machineGlobalConfig: {cluster-cidr: 10.1.0.0/16}}}`, spec: `{rkeConfig: {machineGlobalConfig: {cluster-cidr: 10.2.0.0/16}}}`,
			refusal: "spec.rkeConfig.machineGlobalConfig"},
		"without effect": {spec: `{enableNetworkPolicy: true, rkeConfig: {chartValues: {rke2-calico: {}}}}`, warning: "these fields of spec have no effect: enableNetworkPolicy, rkeConfig.chartValues"},
	} {
		t.Run(name, func(t *testing.T) {
			request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(t, test.spec)}}
			if test.before != "" {
				request.Operation, request.OldObject = admissionv1.Update, raw(t, test.before)
			}
			got := (&admission.Clusters{}).Handle(t.Context(), request)
			if test.refusal != "" {
				require.False(t, got.Allowed)
				require.Contains(t, got.Result.Message, test.refusal)
				return
			}
			require.True(t, got.Allowed, got.Result)
			require.Equal(t, test.warning, strings.Join(got.Warnings, ""))
		})
	}
}

// raw is a Cluster that was rendered, with this specification.
func raw(t *testing.T, spec string) runtime.RawExtension {
	t.Helper()
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "shop", Annotations: map[string]string{provv1.RenderedAnnotation: "one"}}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &cluster.Spec))
	encoded, err := json.Marshal(cluster)
	require.NoError(t, err)
	return runtime.RawExtension{Raw: encoded}
}
