package admission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/admission"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/apply"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/releases"
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
		"without effect": {spec: `{enableNetworkPolicy: true, localClusterAuthEndpoint: {enabled: true}, rkeConfig: {rotateCertificates: {generation: 1}}}`,
			warning: "these fields of spec have no effect: enableNetworkPolicy, localClusterAuthEndpoint, rkeConfig.rotateCertificates"},
		"two machines on one host": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, quantity: 2, machineConfigRef: {kind: GenericConfig, name: host}}]}}`,
			refusal: "spec.rkeConfig.machinePools[a].quantity is 2, but GenericConfig host names one host, which has room for one machine: use a pool with a GenericConfig of its own for each host"},
		"two pools with one host": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, machineConfigRef: {kind: GenericConfig, name: host}}, {name: b, workerRole: true, machineConfigRef: {kind: GenericConfig, name: host}}]}}`,
			refusal: "spec.rkeConfig.machinePools[b].machineConfigRef names GenericConfig host, as another pool does"},
		"an autoscaled host": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 3, machineConfigRef: {kind: GenericConfig, name: host}}]}}`,
			refusal: "spec.rkeConfig.machinePools[a].autoscalingMaxSize is 3, but GenericConfig host names one host"},
		"hosts": {spec: `{rkeConfig: {machinePools: [{name: a, workerRole: true, quantity: 0, machineConfigRef: {kind: GenericConfig, name: host}}, {name: b, workerRole: true, machineConfigRef: {kind: GenericConfig, name: host}},
			{name: c, workerRole: true, autoscalingMinSize: 0, autoscalingMaxSize: 1, machineConfigRef: {kind: GenericConfig, name: other}}, {name: d, workerRole: true, quantity: 3, machineConfigRef: {kind: DigitaloceanConfig, name: other}}]}}`},
		"chart values":         {spec: `{rkeConfig: {chartValues: {rke2-calico: {a: b}}}}`},
		"invalid chart values": {spec: `{rkeConfig: {chartValues: {rke2-calico: text}}}`, refusal: "spec.rkeConfig.chartValues.rke2-calico must be a map"},
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

// TestClusters_version: a version that no server can get is rejected where the user writes it.
func TestClusters_version(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(scheme))
	for name, test := range map[string]struct {
		before, after string
		// running are the versions that the RKEControlPlane reports.
		running []string
		// restored: the Cluster is created with the annotation of a rendered one.
		restored                  bool
		problem, refusal, warning string
	}{
		"listed":                      {after: "v1.36.3+k3s1"},
		"an unlisted patch":           {after: "v1.36.99+k3s1", warning: "v1.36.99+k3s1 is not in the catalogue of releases"},
		"an unknown minor":            {after: "v1.99.1+k3s1", refusal: "spec.kubernetesVersion: unknown release: the catalogue has k3s 1.33"},
		"restored":                    {after: "v1.99.1+k3s1", restored: true, warning: "No server gets a plan with it (KubernetesVersionUnknown)"},
		"unknown and unchanged":       {before: "v1.99.1+k3s1", after: "v1.99.1+k3s1", warning: "No server gets a plan with it (KubernetesVersionUnknown)"},
		"no catalogue":                {after: "v1.99.1+k3s1", problem: "the ConfigMap has no YAML"},
		"the next minor":              {before: "v1.35.7+k3s1", after: "v1.36.3+k3s1"},
		"an older patch":              {before: "v1.36.3+k3s1", after: "v1.36.1+k3s1"},
		"a minor downgrade":           {before: "v1.36.3+k3s1", after: "v1.35.7+k3s1", refusal: "spec.kubernetesVersion is v1.35.7+k3s1, and the Cluster runs v1.36.3+k3s1: Kubernetes does not support a downgrade"},
		"a jump":                      {before: "v1.34.1+k3s1", after: "v1.36.3+k3s1", refusal: "Kubernetes cannot skip a minor version; upgrade to a release of 1.35 first"},
		"a jump of the servers":       {before: "v1.35.7+k3s1", after: "v1.36.3+k3s1", running: []string{"v1.34.1+k3s1"}, refusal: "and a server runs v1.34.1+k3s1: Kubernetes cannot skip"},
		"an upgrade is taken back":    {before: "v1.36.3+k3s1", after: "v1.35.7+k3s1", running: []string{"v1.35.7+k3s1"}},
		"a downgrade of the servers":  {before: "v1.36.3+k3s1", after: "v1.35.7+k3s1", running: []string{"v1.35.7+k3s1", "v1.36.3+k3s1"}, refusal: "and a server runs v1.36.3+k3s1"},
		"a mistake before any server": {before: "v1.36.3+k3s1", after: "v1.35.7+k3s1", running: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			hook := &admission.Clusters{Catalogue: func(context.Context) (*releases.Catalogue, string, error) {
				catalogue, err := releases.Default()
				return catalogue, test.problem, err
			}}
			if test.running != nil {
				controlPlane := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}}
				for _, version := range test.running {
					controlPlane.Status.Versions = append(controlPlane.Status.Versions, clusterv1.StatusVersion{Version: version})
				}
				hook.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(controlPlane).Build()
			}
			request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(t, "{kubernetesVersion: "+test.after+", rkeConfig: {}}")}}
			if test.before != "" {
				request.Operation, request.OldObject = admissionv1.Update, raw(t, "{kubernetesVersion: "+test.before+", rkeConfig: {}}")
			} else if !test.restored {
				request.Object.Raw = bytes.ReplaceAll(request.Object.Raw, []byte(provv1.RenderedAnnotation), []byte("x/y"))
			}
			got := hook.Handle(t.Context(), request)
			if test.refusal != "" {
				require.False(t, got.Allowed)
				require.Contains(t, got.Result.Message, test.refusal)
				return
			}
			require.True(t, got.Allowed, got.Result)
			require.Equal(t, test.warning != "", len(got.Warnings) > 0, got.Warnings)
			require.Contains(t, strings.Join(got.Warnings, ""), test.warning)
		})
	}
}

// TestClusters_arguments: a Cluster is warned of arguments as its RKEControlPlane is.
func TestClusters_arguments(t *testing.T) {
	hook := &admission.Clusters{Catalogue: func(context.Context) (*releases.Catalogue, string, error) {
		catalogue, err := releases.Default()
		return catalogue, "", err
	}}
	got := hook.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create,
		Object: raw(t, `{kubernetesVersion: v1.36.3+k3s1, rkeConfig: {machineGlobalConfig: {kubelet-args: [a=b]}}}`)}})
	require.True(t, got.Allowed, got.Result)
	require.Contains(t, got.Warnings[0], "spec.rkeConfig.machineGlobalConfig: kubelet-args is not a known argument of v1.36.3+k3s1: did you mean kubelet-arg?")
}

// TestClusters_forced: a change that deletes the cluster's data is announced.
func TestClusters_forced(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{provv1.AddToScheme, clusterv1.AddToScheme, rkev1.AddToScheme, apiextensionsv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	there := metav1.ObjectMeta{Namespace: "shop", Name: "one"}
	capi := &clusterv1.Cluster{ObjectMeta: there}
	capi.UID = "1"
	server := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one-server",
		Labels:          map[string]string{rkev1.ClusterNameLabel: "one", rkev1.MachinePoolLabel: "server"},
		Annotations:     map[string]string{apply.HashAnnotation: "x"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "one", UID: "1"}}}}
	server.Spec.Template.Labels = map[string]string{rkev1.EtcdRoleLabel: "true"}
	server.Spec.Replicas = new(int32(1))
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(capi, server).Build()
	const kept = `{rkeConfig: {machinePools: [{name: server, etcdRole: true, controlPlaneRole: true, machineConfigRef: {kind: XConfig, name: a}}]}}`
	request := func(spec, value string) webhook.Request {
		cluster := &provv1.Cluster{}
		require.NoError(t, json.Unmarshal(raw(t, spec).Raw, cluster))
		cluster.Annotations[rkev1.EtcdForceRemoveAnnotation] = value
		encoded, err := json.Marshal(cluster)
		require.NoError(t, err)
		return webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: encoded}, OldObject: raw(t, kept)}}
	}
	hook := &admission.Clusters{Client: reader}
	warnings := strings.Join(hook.Handle(t.Context(), request(`{rkeConfig: {}}`, "true")).Warnings, "\n")
	require.Contains(t, warnings, "pool server: 1 machine is deleted")
	require.Contains(t, warnings, "pool server: its machine has the cluster's data (etcd), and the annotation rke.cattle.io/etcd-force-remove allows to delete it: the data is lost")
	warnings = strings.Join(hook.Handle(t.Context(), request(kept, "true")).Warnings, "\n")
	require.Contains(t, warnings, "remove it after use")
	require.NotContains(t, warnings, "the data is lost")
	warnings = strings.Join(hook.Handle(t.Context(), request(`{rkeConfig: {}}`, "false")).Warnings, "\n")
	require.Contains(t, warnings, "is not deleted")
	require.NotContains(t, warnings, "lost")
}

// TestClusters_credentials: a credential that the namespace cannot use gives a warning when it is named
// first. A Secret of another namespace that does not exist is not told from one that is not shared.
func TestClusters_credentials(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	secret := func(namespace, name, shared string) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: shared}}}
	}
	hook := &admission.Clusters{Credentials: credential.Source{Reader: fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(secret("shop", "mine", ""), secret("other", "shared", "shop"), secret("other", "closed", "")).Build()}}
	spec := func(first, second string) string {
		return `{cloudCredentialSecretName: "` + first + `", rkeConfig: {machinePools: [{name: a, workerRole: true, machineConfigRef: {kind: XConfig, name: a}},
			{name: b, workerRole: true, machineConfigRef: {kind: XConfig, name: a}}, {name: c, workerRole: true, cloudCredentialSecretName: "` + second + `", machineConfigRef: {kind: XConfig, name: a}}]}}`
	}
	for _, test := range []struct {
		before, after string
		warnings      []string
	}{
		{"", spec("mine", "other:shared"), nil},
		{"", spec("later", "other:shared"), []string{"the machines of pool a, pool b wait: credential Secret shop/later does not exist: create it first"}},
		{"", spec("mine", "other:closed"), []string{"the machines of pool c wait: credential Secret other/closed does not exist or is not shared with namespace shop"}},
		{"", spec("mine", "other:missing"), []string{"the machines of pool c wait: credential Secret other/missing does not exist or is not shared with namespace shop"}},
		{spec("later", "mine"), spec("later", "other:shared"), nil},
		{spec("later", "mine"), spec("later", "gone"), []string{"the machines of pool c wait: credential Secret shop/gone does not exist"}},
	} {
		request := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(t, test.after)}}
		if test.before != "" {
			request.Operation, request.OldObject = admissionv1.Update, raw(t, test.before)
		}
		got := hook.Handle(t.Context(), request)
		require.True(t, got.Allowed, got.Result)
		require.Len(t, got.Warnings, len(test.warnings), got.Warnings)
		for i, warning := range test.warnings {
			require.Contains(t, got.Warnings[i], warning)
		}
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

// TestRendered: only the Cluster deletes the objects that it renders.
func TestRendered(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, provv1.AddToScheme(scheme))
	require.NoError(t, clusterv1.AddToScheme(scheme))
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one-workers", Labels: map[string]string{rkev1.ClusterNameLabel: "one"}}}
	content, err := json.Marshal(object)
	require.NoError(t, err)
	going := metav1.ObjectMeta{Namespace: "shop", Name: "one", DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"a/b"}}
	there := metav1.ObjectMeta{Namespace: "shop", Name: "one"}
	for name, test := range map[string]struct {
		objects []client.Object
		allowed bool
	}{
		"a living Cluster":         {[]client.Object{&provv1.Cluster{ObjectMeta: there}, &clusterv1.Cluster{ObjectMeta: there}}, false},
		"no Cluster":               {[]client.Object{&clusterv1.Cluster{ObjectMeta: there}}, true},
		"the Cluster goes":         {[]client.Object{&provv1.Cluster{ObjectMeta: going}, &clusterv1.Cluster{ObjectMeta: there}}, true},
		"the CAPI Cluster goes":    {[]client.Object{&provv1.Cluster{ObjectMeta: there}, &clusterv1.Cluster{ObjectMeta: going}}, true},
		"the CAPI Cluster is gone": {[]client.Object{&provv1.Cluster{ObjectMeta: there}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.objects...).Build()
			got := (&admission.Rendered{Reader: reader}).Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Namespace: "shop", Name: "one-workers", Kind: metav1.GroupVersionKind{Kind: "MachineDeployment"}, OldObject: runtime.RawExtension{Raw: content}}})
			require.Equal(t, test.allowed, got.Allowed)
			if !test.allowed {
				require.Contains(t, got.Result.Message, "MachineDeployment one-workers belongs to the Cluster one")
			}
		})
	}
}
