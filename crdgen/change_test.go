package crdgen_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/testkit"
)

// changing is a driver of which several versions are installed one after the other.
type changing struct {
	name     string
	client   dynamic.Interface
	machines dynamic.ResourceInterface
}

func newChanging(t *testing.T, name string) *changing {
	t.Helper()
	client, err := dynamic.NewForConfig(testkit.Config(t))
	require.NoError(t, err)
	return &changing{name: name, client: client, machines: client.Resource(schema.GroupVersionResource{
		Group: crdgen.MachineGroup, Version: "v1", Resource: name + "machines"}).Namespace(testkit.Namespace(t))}
}

// install makes the kinds of this version of the driver.
func (c *changing) install(t *testing.T, fields ...crdgen.Field) {
	t.Helper()
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: c.name, Fields: fields})
	require.NoError(t, err)
	testkit.ApplyCRDs(t, config, template, machine)
}

func (c *changing) create(t *testing.T, name string, spec map[string]any) (*unstructured.Unstructured, error) {
	t.Helper()
	return c.machines.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": crdgen.MachineGroup + "/v1",
		"kind": crdgen.KindsOf(c.name).Machine, "metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
}

// serves waits until the server has the new schema: it takes a moment, in which old objects are still written by the old one.
func (c *changing) serves(t *testing.T, spec map[string]any, accepted bool) {
	t.Helper()
	for {
		made, err := c.machines.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": crdgen.MachineGroup + "/v1",
			"kind": crdgen.KindsOf(c.name).Machine, "metadata": map[string]any{"name": "probe"}, "spec": spec}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
		if (err == nil) == accepted {
			return
		}
		require.NoError(t, t.Context().Err(), "%v %v", made, err)
	}
}

func field(name string, kind crdgen.FlagType) crdgen.Field {
	return crdgen.Field{Name: name, Flag: "x-" + name, Type: kind}
}

// What Incompatible warns of is what a real API server does to the objects of a driver that changed.
func TestServerShowsWhatIncompatibleMeans(t *testing.T) {
	c := newChanging(t, "changing")
	old := []crdgen.Field{field("zone", crdgen.String), field("size", crdgen.String), field("kept", crdgen.String)}
	c.install(t, old...)
	c.serves(t, map[string]any{"zone": "z"}, true)
	_, err := c.create(t, "one", map[string]any{"zone": "z", "size": "large", "kept": "k"})
	require.NoError(t, err)

	next := []crdgen.Field{field("size", crdgen.Int), field("kept", crdgen.String), field("added", crdgen.Bool)}
	require.Equal(t, []crdgen.Change{{"size", "size is retyped from string to int"}, {"zone", "zone (string) is dropped"}}, crdgen.Incompatible(old, next))

	c.install(t, next...)
	c.serves(t, map[string]any{"added": true}, true)
	seen, err := c.machines.Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": "large", "kept": "k"}, seen.Object["spec"], "what is dropped is gone from what clients see")
	changed := seen.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(changed.Object, "other", "spec", "kept"))
	_, err = c.machines.Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err, "an unchanged value of the old type may stay")
	_, err = c.create(t, "two", map[string]any{"size": "large"})
	require.ErrorContains(t, err, `spec.size: Invalid value: "large"`, "but it is refused in new objects")
	values := map[string]any{"size": "large"}
	_, _, err = crdgen.Options(next, values)
	require.ErrorContains(t, err, "field size: must be an integer", "and the driver cannot be given it")
}

// Changes that Incompatible lets pass harm nobody.
func TestServerTakesCompatibleChanges(t *testing.T) {
	c := newChanging(t, "growing")
	old := []crdgen.Field{field("size", crdgen.Int)}
	c.install(t, old...)
	c.serves(t, map[string]any{"size": int64(1)}, true)
	_, err := c.create(t, "one", map[string]any{"size": "7"})
	require.NoError(t, err)
	next := []crdgen.Field{{Name: "size", Flag: "x-other", Type: crdgen.Int, Default: int64(3), Usage: "new text", EnvVar: "X"}, field("tags", crdgen.StringSlice)}
	require.Empty(t, crdgen.Incompatible(old, next))
	c.install(t, next...)
	c.serves(t, map[string]any{"tags": []any{"a"}}, true)
	machine, err := c.machines.Get(t.Context(), "one", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"size": "7"}, machine.Object["spec"])
	require.NoError(t, unstructured.SetNestedStringSlice(machine.Object, []string{"a"}, "spec", "tags"))
	updated, err := c.machines.Update(t.Context(), machine, metav1.UpdateOptions{})
	require.NoError(t, err)
	values, _, err := crdgen.Options(next, updated.Object["spec"].(map[string]any))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"x-other": 7, "x-tags": []string{"a"}}, values)
}

// A config's defaults are the driver's; what a user wrote, even an empty value, stays.
func TestServerFillsInEveryTypeOfDefault(t *testing.T) {
	client, namespace := acmeKinds(t), testkit.Namespace(t)
	configs := client.Resource(schema.GroupVersionResource{Group: crdgen.ConfigGroup, Version: "v1", Resource: "acmeconfigs"}).Namespace(namespace)
	defaults := map[string]any{"region": "r1", "sshPort": int64(22), "ipv6": true, "tags": []any{"x"}}
	for name, tt := range map[string]struct{ written, want map[string]any }{
		"nothing":      {map[string]any{}, defaults},
		"nulls":        {map[string]any{"region": nil, "sshPort": nil, "ipv6": nil, "tags": nil}, map[string]any{"region": nil, "sshPort": nil, "ipv6": nil, "tags": nil}},
		"empty values": {map[string]any{"region": "", "sshPort": "", "ipv6": false, "tags": []any{}}, map[string]any{"region": "", "sshPort": "", "ipv6": false, "tags": []any{}}},
		"own values":   {map[string]any{"region": "r2", "sshPort": "2222", "tags": []any{"a"}}, map[string]any{"region": "r2", "sshPort": "2222", "ipv6": true, "tags": []any{"a"}}},
		"a secret":     {map[string]any{"token": "t"}, map[string]any{"token": "t", "region": "r1", "sshPort": int64(22), "ipv6": true, "tags": []any{"x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"apiVersion": crdgen.ConfigGroup + "/v1", "kind": "AcmeConfig", "metadata": map[string]any{"generateName": "one-"}}
			maps.Copy(object, tt.written)
			created, err := configs.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: "Strict"})
			require.NoError(t, err)
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				delete(created.Object, key)
			}
			require.Equal(t, tt.want, created.Object)
			_, _, err = crdgen.Options(acmeFields(), created.Object)
			require.NoError(t, err)
		})
	}
}

// Cluster API writes the provider ID through the spec, and nobody changes or removes it afterwards; all else stays editable.
func TestServerKeepsAProviderID(t *testing.T) {
	c := newChanging(t, "keeping")
	c.install(t, field("size", crdgen.String))
	c.serves(t, map[string]any{"size": "s"}, true)
	machine, err := c.create(t, "one", map[string]any{"size": "s"})
	require.NoError(t, err)
	set := func(value any) error {
		changed := machine.DeepCopy()
		spec, _ := changed.Object["spec"].(map[string]any)
		spec["providerID"] = value
		if value == nil {
			delete(spec, "providerID")
		}
		updated, err := c.machines.Update(t.Context(), changed, metav1.UpdateOptions{})
		if err == nil {
			machine = updated
		}
		return err
	}
	const refusal = "providerID cannot be changed once it is set: delete the Machine to get another server"
	require.NoError(t, set(""))
	require.NoError(t, set("keeping://1"))
	require.ErrorContains(t, set("keeping://2"), refusal)
	require.ErrorContains(t, set(""), refusal)
	require.ErrorContains(t, set(nil), refusal)
	require.NoError(t, set("keeping://1"))
	require.NoError(t, unstructured.SetNestedField(machine.Object, "l", "spec", "size"))
	_, err = c.machines.Update(t.Context(), machine, metav1.UpdateOptions{})
	require.NoError(t, err)
}
