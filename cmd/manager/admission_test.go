package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/testkit"
)

// machineOf is a machine, template or config that names a credential.
func machineOf(ns, name, kind, credential string) *unstructured.Unstructured {
	spec := map[string]any{}
	if credential != "" {
		spec["common"] = map[string]any{"cloudCredentialSecretName": credential}
	}
	content := map[string]any{"spec": spec}
	version := rkev1.MachineGroupVersion
	switch {
	case strings.HasSuffix(kind, "Template"):
		content = map[string]any{"spec": map[string]any{"template": content}}
	case strings.HasSuffix(kind, "Config"):
		content, version = map[string]any{}, rkev1.MachineConfigGroupVersion
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(version.WithKind(kind))
	obj.SetNamespace(ns)
	obj.SetName(name)
	return obj
}

func testCAPIWebhooks(t *testing.T, c client.Client, ns string) {
	t.Helper()
	md := poolOf(ns, "one")
	require.NoError(t, c.Create(t.Context(), md))
	require.NotEmpty(t, md.Spec.Selector.MatchLabels, "Cluster API's defaulting webhook fills the selector in")

	before := md.DeepCopy()
	md.Spec.ClusterName = "two"
	require.ErrorContains(t, c.Patch(t.Context(), md, client.MergeFrom(before)), "clusterName", "Cluster API's validating webhook keeps the name")
	testGuard(t, c, ns, before)
}

// endless is a template for names that has no end.
const endless = "{{ range 1000000000 }}xxxxxxxxxxxxxxxx{{ end }}{{ .random }}"

// poolOf is a MachineDeployment of no machines.
func poolOf(ns, cluster string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pool"}}
	md.Spec.ClusterName = cluster
	md.Spec.Template.Spec.ClusterName = cluster
	md.Spec.Template.Spec.Bootstrap.DataSecretName = new("none")
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachineTemplate", Name: "pool"}
	md.Spec.Replicas = new(int32)
	return md
}

// classOf is a ClusterClass, and clusterOfClass a Cluster of it.
func classOf(ns, name string) *clusterv1.ClusterClass {
	template := clusterv1.ClusterClassTemplateReference{APIVersion: rkev1.GroupVersion.String(), Kind: "RKEClusterTemplate", Name: "secret"}
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane.TemplateRef = template, template
	return class
}

func clusterOfClass(ns, classNamespace, class string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "thief"}}
	cluster.Spec.Topology = clusterv1.Topology{Version: "v1.34.0", ClassRef: clusterv1.ClusterClassRef{Namespace: classNamespace, Name: class}}
	return cluster
}

// testGuard tries what Cluster API's own webhooks would execute, or tell.
func testGuard(t *testing.T, c client.Client, ns string, md *clusterv1.MachineDeployment) {
	t.Helper()
	bomb := md.DeepCopy()
	bomb.Spec.MachineNaming.Template = endless
	require.ErrorContains(t, c.Patch(t.Context(), bomb, client.MergeFrom(md)), "range is not executed")

	class := classOf(testkit.Namespace(t), "there")
	require.NoError(t, c.Create(t.Context(), class))
	var answers []string
	for _, name := range []string{"there", "not-there"} {
		err := c.Create(t.Context(), clusterOfClass(ns, class.Namespace, name), client.DryRunAll)
		require.ErrorContains(t, err, "there is no such ClusterClass for this namespace")
		answers = append(answers, err.Error())
	}
	require.Equal(t, answers[0], answers[1], "a dry run tells nothing of what exists")
}

func testAdmission(t *testing.T, c client.Client, ns string) {
	t.Helper()
	other := testkit.Namespace(t)
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "here"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "private"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "shared", Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: "x, " + ns}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "public", Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: "*"}}},
	} {
		require.NoError(t, c.Create(t.Context(), secret))
	}
	cloned := func(obj *unstructured.Unstructured) {
		obj.SetAnnotations(map[string]string{"cluster.x-k8s.io/cloned-from-name": "a-template"})
	}
	later := func(obj *unstructured.Unstructured) {
		obj.SetAnnotations(map[string]string{"drover.cattle.io/allow-missing-credential": "true"})
	}
	for _, tt := range []struct {
		name, kind, credential string
		change                 func(*unstructured.Unstructured)
		refusal                string
	}{
		{name: "no credential", kind: "DigitaloceanMachine"},
		{name: "credential here", kind: "DigitaloceanMachine", credential: "here"},
		{name: "credential here, named in full", kind: "DigitaloceanMachine", credential: ns + ":here"},
		{name: "shared with this namespace", kind: "DigitaloceanMachine", credential: other + ":shared"},
		{name: "shared with all", kind: "DigitaloceanMachineTemplate", credential: other + ":public"},
		{name: "a config", kind: "DigitaloceanConfig"},
		{name: "unknown", kind: "DigitaloceanMachine", credential: "nowhere", refusal: "create it first"},
		{name: "unknown in a template", kind: "DigitaloceanMachineTemplate", credential: "nowhere", refusal: "nowhere does not exist"},
		{name: "unknown elsewhere", kind: "DigitaloceanMachine", credential: other + ":nowhere", refusal: "does not exist or is not shared"},
		{name: "not shared", kind: "DigitaloceanMachine", credential: other + ":private", refusal: rkev1.AllowedNamespacesAnnotation},
		{name: "not shared, and cloned: the controller looks again", kind: "DigitaloceanMachine", credential: other + ":private", change: cloned},
		{name: "unknown elsewhere, and cloned: the same answer", kind: "DigitaloceanMachine", credential: other + ":nowhere", change: cloned},
		{name: "cloned by Cluster API", kind: "DigitaloceanMachine", credential: "nowhere", change: cloned},
		{name: "made later", kind: "DigitaloceanMachine", credential: "nowhere", change: later},
	} {
		t.Run(tt.name, func(t *testing.T) {
			obj := machineOf(ns, "", tt.kind, tt.credential)
			obj.SetGenerateName("try-")
			if tt.change != nil {
				tt.change(obj)
			}
			err := c.Create(t.Context(), obj, client.DryRunAll)
			if tt.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, tt.refusal)
		})
	}
	t.Run("NodeDrivers", func(t *testing.T) { testNodeDriverAdmission(t, c) })
}

func testNodeDriverAdmission(t *testing.T, c client.Client) {
	t.Helper()
	builtin := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}}
	require.ErrorContains(t, c.Delete(t.Context(), builtin), "spec.active to false")

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(builtin), builtin))
	builtin.Spec.DisplayName = "google"
	require.ErrorContains(t, c.Update(t.Context(), builtin), "cannot be changed")

	unknown := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: v3.NodeDriverSpec{URL: "local://", Active: true}}
	require.ErrorContains(t, c.Create(t.Context(), unknown), "no driver named \"mine\" is built in")

	bare := &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: v3.NodeDriverSpec{URL: "https://198.18.0.1/x", Active: true}}
	require.ErrorContains(t, c.Create(t.Context(), bare), "needs spec.checksum")
}

func testTemplates(t *testing.T, c client.Client, ns string) {
	t.Helper()
	template := machineOf(ns, "fixed", "DigitaloceanMachineTemplate", "")
	require.NoError(t, c.Create(t.Context(), template))

	template.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, c.Update(t.Context(), template), "metadata may change")

	require.NoError(t, unstructured.SetNestedField(template.Object, "fra1", "spec", "template", "spec", "region"))
	require.ErrorContains(t, c.Update(t.Context(), template), "create a new template")

	dryRun, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{clusterv1.TopologyDryRunAnnotation: ""}},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"region": "fra1"}}}})
	require.NoError(t, err)
	require.NoError(t, c.Patch(t.Context(), template.DeepCopy(), client.RawPatch("application/merge-patch+json", dryRun), client.DryRunAll),
		"ClusterClass asks what would change")
	require.Error(t, c.Patch(t.Context(), template.DeepCopy(), client.RawPatch("application/merge-patch+json", dryRun)))
}
