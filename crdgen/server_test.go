package crdgen_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

func TestMain(m *testing.M) {
	crds, err := capi.CRDs()
	own, ownErr := charts.CRDs()
	if err = errors.Join(err, ownErr); err != nil {
		panic(err)
	}
	testkit.Main(m, testkit.WithCRDs(append(crds, own...)...))
}

var crdResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// apply sends an object by server-side apply and returns what the server made of it.
func apply(t *testing.T, client dynamic.ResourceInterface, object map[string]any) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: object}
	got, err := client.Apply(t.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "drover-test", Force: true})
	require.NoError(t, err, u.GetName())
	return got
}

// installDrivers applies the kinds of the named drivers twice, waits until they are served, and returns a client.
func installDrivers(t *testing.T, names ...string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	all := builtinFields(t)
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: all[name]})
		require.NoError(t, err)
		crds = append(crds, config, template, machine)
	}
	for _, crd := range crds {
		manifest, err := manifestOf(crd)
		require.NoError(t, err)
		first := apply(t, client.Resource(crdResource), manifest)
		second := apply(t, client.Resource(crdResource), manifest)
		require.Equal(t, first.GetGeneration(), second.GetGeneration(), "applying %s again must change nothing", crd.Name)
	}
	testkit.ApplyCRDs(t, crds...)
	return client
}

func TestServerTakesEveryBuiltinDriver(t *testing.T) {
	names := slices.Sorted(maps.Keys(flagCounts))
	client := installDrivers(t, names...)
	found, err := client.Resource(crdResource).List(t.Context(),
		metav1.ListOptions{LabelSelector: "io.cattle.node_driver.name in (" + strings.Join(names, ",") + ")"})
	require.NoError(t, err)
	require.Len(t, found.Items, 3*len(flagCounts))
	for _, item := range found.Items {
		conditions, _, err := unstructured.NestedSlice(item.Object, "status", "conditions")
		require.NoError(t, err)
		for _, condition := range conditions {
			c := condition.(map[string]any)
			switch c["type"] {
			case "Established", "NamesAccepted":
				require.Equal(t, "True", c["status"], "%s %s: %s", item.GetName(), c["type"], c["message"])
			case "NonStructuralSchema":
				require.NotEqual(t, "True", c["status"], "%s: %s", item.GetName(), c["message"])
			}
		}
	}

	// What kubectl explain reads.
	clients, err := discovery.NewDiscoveryClientForConfig(testkit.Config(t))
	require.NoError(t, err)
	paths, err := clients.OpenAPIV3().Paths()
	require.NoError(t, err)
	document, err := paths["apis/rke-machine.cattle.io/v1"].Schema("application/json")
	require.NoError(t, err)
	require.Contains(t, string(document), "Digital Ocean region")
	require.Contains(t, string(document), "Driver flag --digitalocean-region.")
}

func TestServerKeepsAMachineAsWritten(t *testing.T) {
	client := installDrivers(t, "digitalocean")
	machines := client.Resource(schema.GroupVersionResource{Group: crdgen.MachineGroup, Version: "v1", Resource: "digitaloceanmachines"}).
		Namespace(testkit.Namespace(t))
	var manifest map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{
		"apiVersion": "rke-machine.cattle.io/v1", "kind": "DigitaloceanMachine", "metadata": {"name": "m1", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
		"spec": {"region": "nyc3", "sshPort": "22", "ipv6": true, "userdata": "#cloud-config\n", "regoin": "typo",
			"common": {"labels": {"a": "b"}, "taints": [{"key": "k", "effect": "NoSchedule"}], "cloudCredentialSecretName": "do"}}}`), &manifest))
	created, err := machines.Create(t.Context(), &unstructured.Unstructured{Object: manifest}, metav1.CreateOptions{FieldValidation: "Warn"})
	require.NoError(t, err)
	spec, _, _ := unstructured.NestedMap(created.Object, "spec")
	require.NotContains(t, spec, "regoin", "unknown fields are pruned")
	require.NotContains(t, spec, "size", "defaults are not written")
	require.Equal(t, "22", spec["sshPort"])

	_, err = machines.Create(t.Context(), &unstructured.Unstructured{Object: manifest}, metav1.CreateOptions{FieldValidation: "Strict"})
	require.ErrorContains(t, err, "regoin", "kubectl's strict validation names the field")
}

// Templates had a status that nobody filled. One that has it, because somebody wrote it, goes on without.
func TestServerDropsTheStatusOfTemplates(t *testing.T) {
	before, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	_, template, _, err := crdgen.CRDs(crdgen.Schema{Driver: "digitalocean", Fields: builtinFields(t)["digitalocean"]})
	require.NoError(t, err)
	version := &template.Spec.Versions[0]
	version.Schema.OpenAPIV3Schema.Properties["status"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	testkit.ApplyCRDs(t, template)
	resource := schema.GroupVersionResource{Group: crdgen.MachineGroup, Version: "v1", Resource: "digitaloceanmachinetemplates"}
	namespace := testkit.Namespace(t)
	object, err := before.Resource(resource).Namespace(namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke-machine.cattle.io/v1", "kind": "DigitaloceanMachineTemplate", "metadata": map[string]any{"name": "with-status"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"region": "nyc3"}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	object.Object["status"] = map[string]any{"capacity": map[string]any{"cpu": "2"}}
	object, err = before.Resource(resource).Namespace(namespace).UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Contains(t, object.Object, "status")

	templates := installDrivers(t, "digitalocean").Resource(resource).Namespace(namespace)
	object.SetLabels(map[string]string{"a": "b"})
	object, err = templates.Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NotContains(t, object.Object, "status")
}

// What kubectl get shows.
func TestServerPrintsColumns(t *testing.T) {
	client := installDrivers(t, "digitalocean")
	namespace := testkit.Namespace(t)
	machines := client.Resource(schema.GroupVersionResource{Group: crdgen.MachineGroup, Version: "v1", Resource: "digitaloceanmachines"}).Namespace(namespace)
	created, err := machines.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke-machine.cattle.io/v1", "kind": "DigitaloceanMachine",
		"metadata": map[string]any{"name": "m1", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "c1"}}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	created.Object["status"] = map[string]any{
		"phase": "Running",
		"conditions": []any{
			map[string]any{"type": "CreateJob", "status": "True", "reason": "JobSucceeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
			map[string]any{"type": "Ready", "status": "False", "reason": "Deleting", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		},
		"addresses": []any{map[string]any{"type": "ExternalIP", "address": "198.18.0.9"}, map[string]any{"type": "InternalIP", "address": "198.18.1.9"}},
	}
	_, err = machines.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)

	table := testkit.Table(t, "/apis/rke-machine.cattle.io/v1/namespaces/"+namespace+"/digitaloceanmachines")
	shown := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			shown[column.Name] = table.Rows[0].Cells[i]
		}
	}
	delete(shown, "Age")
	require.Equal(t, map[string]any{
		"Name": "m1", "Cluster": "c1", "Phase": "Running", "Ready": "False", "Address": "198.18.0.9", "Reason": "Deleting",
	}, shown)
}
