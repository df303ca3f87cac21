package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
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

// testGuard tries objects that Cluster API's own webhooks must not see.
func testGuard(t *testing.T, c client.Client, ns string, md *clusterv1.MachineDeployment) {
	t.Helper()
	bomb := md.DeepCopy()
	bomb.Spec.MachineNaming.Template = endless
	require.ErrorContains(t, c.Patch(t.Context(), bomb, client.MergeFrom(md)), "range is not supported")

	require.ErrorContains(t, c.Create(t.Context(), classOf(ns, "class")), "does not serve ClusterClasses")
	require.ErrorContains(t, c.Create(t.Context(), clusterOfClass(ns, ns, "class")), "spec.topology: the embedded Cluster API does not serve ClusterClasses")
}

// testAdmission tries one of each that our own webhooks and policies refuse; package admission has them all.
func testAdmission(t *testing.T, c client.Client, ns string) {
	t.Helper()
	err := c.Create(t.Context(), machineOf(ns, "try", "DigitaloceanMachine", "nowhere"))
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "create it first")
	require.ErrorContains(t, c.Delete(t.Context(), &v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}}), "spec.active to false")
	template := machineOf(ns, "fixed", "DigitaloceanMachineTemplate", "")
	require.NoError(t, c.Create(t.Context(), template))
	require.NoError(t, unstructured.SetNestedField(template.Object, "fra1", "spec", "template", "spec", "region"))
	require.ErrorContains(t, c.Update(t.Context(), template), "create a new template")
}
