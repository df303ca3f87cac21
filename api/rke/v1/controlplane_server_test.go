package v1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// writtenControlPlanes are control planes and bootstraps as users write them.
func writtenControlPlanes() []written {
	plane := func(name, body string) written { return written{name, "RKEControlPlane", body} }
	bootstrap := func(name, body string) written { return written{name, "RKEBootstrap", body} }
	template := func(name, body string) written { return written{name, "RKEBootstrapTemplate", body} }
	return []written{
		plane("nothing", "{}"),
		plane("a version", "spec: {kubernetesVersion: v1.36.3+k3s1}"),
		plane("a release candidate", "spec: {kubernetesVersion: v1.36.4-rc1+rke2r1}"),
		plane("plain Kubernetes", "spec: {kubernetesVersion: v1.36.3}"),
		plane("a version without v", "spec: {kubernetesVersion: 1.36.3+k3s1}"),
		plane("Cluster API's version", "spec: {version: v1.36.3}"),
		plane("replicas", "spec: {replicas: 3}"),
		plane("free configuration", "spec: {machineGlobalConfig: {a: 1, b: 1.5, c: true, d: [x, 2], e: {f: null}, g: null}}"),
		plane("null configuration", "spec: {machineGlobalConfig: null, chartValues: null, machineSelectorConfig: [{config: null}], localClusterAuthEndpoint: null}"),
		plane("configuration as text", "spec: {machineGlobalConfig: 'a: 1'}"),
		plane("a concurrency", "spec: {upgradeStrategy: {controlPlaneConcurrency: '0', workerConcurrency: 10%}}"),
		plane("a concurrency in words", "spec: {upgradeStrategy: {workerConcurrency: all}}"),
		plane("a directory", "spec: {dataDirectories: {k8sDistro: /srv/k3s}}"),
		plane("a directory that climbs", "spec: {dataDirectories: {k8sDistro: /srv/../etc}}"),
		plane("a directory for a shell", "spec: {dataDirectories: {systemAgent: '/srv/$(id)'}}"),
		plane("a stack", "spec: {networking: {stackPreference: ipv5}}"),
		plane("a variable", "spec: {agentEnvVars: [{name: HTTPS_PROXY, value: 'http://p:3128'}]}"),
		plane("a variable for a shell", "spec: {agentEnvVars: [{name: 'A;id', value: x}]}"),
		plane("a restore", "spec: {etcdSnapshotRestore: {name: x, generation: 1, restoreRKEConfig: some}}"),
		plane("permissions in words", "spec: {machineSelectorFiles: [{fileSources: [{secret: {name: x, defaultPermissions: rw}}]}]}"),
		bootstrap("nothing", "{}"),
		bootstrap("a cluster", "spec: {clusterName: one}"),
		bootstrap("an unknown field", "spec: {files: []}"),
		template("nothing", "{}"),
		template("an empty template", "spec: {template: {}}"),
		template("labels", "spec: {clusterName: one, template: {metadata: {labels: {a: b}}, spec: {clusterName: one}}}"),
	}
}

// rancherSpec is what Rancher's own controller writes into an RKEControlPlane, with every field of its types.
const rancherSpec = `
additionalManifest: "kind: Namespace\n"
agentEnvVars: [{name: HTTP_PROXY, value: http://proxy.example.com}]
chartValues: {rke2-calico: {installation: {calicoNetwork: {mtu: 1400}}}}
clusterName: prod
dataDirectories: {k8sDistro: /srv/distro, provisioning: /srv/prov, systemAgent: /srv/agent}
etcd: {snapshotRetention: 5, snapshotScheduleCron: 0 */5 * * *, s3: {bucket: b, cloudCredentialName: "cattle-global-data:cc-x", endpoint: e, endpointCA: ca, folder: f, region: r, skipSSLVerify: true}}
etcdSnapshotCreate: {generation: 1}
etcdSnapshotRestore: {generation: 2, name: snapshot, restoreRKEConfig: all}
kubernetesVersion: v1.36.3+rke2r1
localClusterAuthEndpoint: {caCerts: x, enabled: true, fqdn: api.example.com}
machineGlobalConfig: {cni: calico, disable-kube-proxy: false, etcd-expose-metrics: false, kube-apiserver-arg: [a=b], max: 9007199254740993}
machineSelectorConfig: [{config: {protect-kernel-defaults: false}}, {config: {x: y}, machineLabelSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}]
machineSelectorFiles: [{fileSources: [{configMap: {name: c, defaultPermissions: "0600", items: [{dynamic: true, hash: h, key: k, path: /etc/k, permissions: "0644"}]}, secret: {name: ""}}], machineLabelSelector: {matchLabels: {a: b}}}]
managementClusterName: c-m-abcdefgh
networking: {stackPreference: dual}
provisionGeneration: 3
registries: {configs: {r: {authConfigSecretName: a, caBundle: Q0E=, insecureSkipVerify: true, tlsSecretName: t}}, mirrors: {docker.io: {endpoint: [https://m], rewrite: {a: b}}}}
rotateCertificates: {generation: 4, services: [etcd]}
rotateEncryptionKeys: {generation: 5}
unmanagedConfig: true
upgradeStrategy:
  controlPlaneConcurrency: "1"
  controlPlaneDrainOptions: {deleteEmptyDirData: true, disableEviction: false, enabled: true, force: false, gracePeriod: -1, ignoreDaemonSets: true, ignoreErrors: false,
    postDrainHooks: [{annotation: a}], preDrainHooks: [{annotation: b}], skipWaitForDeleteTimeoutSeconds: 0, timeout: 120}
  workerConcurrency: 10%
  workerDrainOptions: {deleteEmptyDirData: false, disableEviction: false, enabled: false, force: false, gracePeriod: 0, ignoreDaemonSets: null, ignoreErrors: false,
    postDrainHooks: null, preDrainHooks: null, skipWaitForDeleteTimeoutSeconds: 0, timeout: 0}
`

// TestServerKeepsRanchersControlPlane: what Rancher writes applies unchanged and is kept, also when our types write it again.
func TestServerKeepsRanchersControlPlane(t *testing.T) {
	c, namespace := newClient(t), testkit.Namespace(t)
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	object := &unstructured.Unstructured{}
	spec := "apiVersion: v1\nkind: x\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(rancherSpec), "\n", "\n  ")
	text, err := yaml.YAMLToJSON([]byte(spec))
	require.NoError(t, err)
	require.NoError(t, object.UnmarshalJSON(text))
	object.SetGroupVersionKind(rkev1.GroupVersion.WithKind("RKEControlPlane"))
	object.SetNamespace(namespace)
	object.SetName("prod")
	require.NoError(t, strict.Create(t.Context(), object))
	plane := testkit.ExpectExists(t, c, &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod"}})
	require.Equal(t, "9007199254740993", string(plane.Spec.MachineGlobalConfig["max"].Raw), "no number loses a digit")
	require.NotNil(t, plane.Spec.UpgradeStrategy.ControlPlaneDrainOptions.IgnoreDaemonSets)
	want := plane.Spec.DeepCopy()
	plane.Labels = map[string]string{"a": "b"}
	require.NoError(t, strict.Update(t.Context(), plane))
	require.Equal(t, *want, testkit.ExpectExists(t, c, plane).Spec)

	for field, change := range map[string]func(*rkev1.RKEControlPlaneSpec){
		"a cluster stays with its distribution": func(s *rkev1.RKEControlPlaneSpec) { s.KubernetesVersion = "v1.36.3+k3s1" },
		"clusterName cannot be changed":         func(s *rkev1.RKEControlPlaneSpec) { s.ClusterName = "another" },
	} {
		other := plane.DeepCopy()
		change(&other.Spec)
		require.ErrorContains(t, c.Update(t.Context(), other), field)
	}
	other := plane.DeepCopy()
	other.Spec.KubernetesVersion, other.Spec.ClusterName = "", ""
	require.ErrorContains(t, c.Update(t.Context(), other), "clusterName cannot be changed", "nor by taking it out first")
	plane.Spec.DataDirectories.K8sDistro = ""
	require.ErrorContains(t, c.Update(t.Context(), plane), "dataDirectories cannot be changed")
	plane.Spec.DataDirectories = rkev1.DataDirectories{}
	require.ErrorContains(t, c.Update(t.Context(), plane), "dataDirectories cannot be changed")
}

// The status has what Cluster API's contract reads, where it looks.
func TestServerKeepsTheStatusOfAControlPlane(t *testing.T) {
	c, namespace := newClient(t), testkit.Namespace(t)
	plane := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}}
	require.NoError(t, c.Create(t.Context(), plane))
	plane.Status = rkev1.RKEControlPlaneStatus{Conditions: fullStatus().Conditions, Ready: true, Initialized: true, AgentConnected: true, ObservedGeneration: 1,
		Initialization: rkev1.ControlPlaneInitialization{ControlPlaneInitialized: new(true)}, Replicas: new(int32(1)), ReadyReplicas: new(int32(1)),
		AvailableReplicas: new(int32(0)), UpToDateReplicas: new(int32(1)), Versions: []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 1}}}
	want := *plane.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), plane))
	require.Equal(t, want.Status, testkit.ExpectExists(t, c, plane).Status)
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(rkev1.GroupVersion.WithKind("RKEControlPlane"))
	raw.SetNamespace(namespace)
	raw.SetName("one")
	testkit.ExpectExists(t, c, raw)
	initialized, found, err := unstructured.NestedBool(raw.Object, "status", "initialization", "controlPlaneInitialized")
	require.NoError(t, err)
	require.True(t, found && initialized)
	available, found, err := unstructured.NestedInt64(raw.Object, "status", "availableReplicas")
	require.NoError(t, err)
	require.True(t, found && available == 0, "none is another answer than unknown")

	bootstrap := &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: rkev1.RKEBootstrapSpec{ClusterName: "prod"}}
	require.NoError(t, c.Create(t.Context(), bootstrap))
	bootstrap.Status = rkev1.RKEBootstrapStatus{Conditions: fullStatus().Conditions, Ready: true, DataSecretName: new("one-machine-bootstrap"),
		Initialization: rkev1.BootstrapInitialization{DataSecretCreated: new(true)}, ObservedGeneration: 1}
	wanted := *bootstrap.DeepCopy()
	require.NoError(t, c.Status().Update(t.Context(), bootstrap))
	require.Equal(t, wanted.Status, testkit.ExpectExists(t, c, bootstrap).Status)
}
