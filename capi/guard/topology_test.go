package guard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// topologyOf is a class with one class of workers, a Cluster of so many machineDeployments, and the class's templates.
type topologyOf struct {
	class     *clusterv1.ClusterClass
	cluster   *clusterv1.Cluster
	templates map[string]*unstructured.Unstructured
}

func newTopology(machineDeployments int) *topologyOf {
	o := &topologyOf{class: classOf("tenant", ""), cluster: clusterOf("tenant", ""), templates: map[string]*unstructured.Unstructured{}}
	ref := func(kind string) clusterv1.ClusterClassTemplateReference {
		o.templates[kind] = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v1", "kind": kind, "metadata": map[string]any{"namespace": "tenant", "name": "t"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"region": "nyc3", "size": "s-1vcpu-1gb"}}}}}
		return clusterv1.ClusterClassTemplateReference{APIVersion: "x.io/v1", Kind: kind, Name: "t"}
	}
	spec := &o.class.Spec
	spec.Infrastructure.TemplateRef, spec.ControlPlane.TemplateRef, spec.ControlPlane.MachineInfrastructure.TemplateRef = ref("XClusterTemplate"), ref("XControlPlaneTemplate"), ref("XMachineTemplate")
	workers := clusterv1.MachineDeploymentClass{Class: "w"}
	workers.Bootstrap.TemplateRef, workers.Infrastructure.TemplateRef = ref("XConfigTemplate"), ref("XMachineTemplate")
	spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{workers}
	for i := range machineDeployments {
		o.cluster.Spec.Topology.Workers.MachineDeployments = append(o.cluster.Spec.Topology.Workers.MachineDeployments,
			clusterv1.MachineDeploymentTopology{Class: "w", Name: fmt.Sprint("m", i)})
	}
	return o
}

func (o *topologyOf) objects() []client.Object {
	out := []client.Object{o.class, o.cluster}
	for _, template := range o.templates {
		out = append(out, template)
	}
	return out
}

func (o *topologyOf) userdata(kind string, size int) *topologyOf {
	o.templates[kind].Object["spec"].(map[string]any)["userdata"] = strings.Repeat("#", size)
	return o
}

// patched has one patch of definitions, each with changes, for the workers.
func (o *topologyOf) patched(kind string, definitions, changes int, from clusterv1.JSONPatchValue) *topologyOf {
	patch := clusterv1.ClusterClassPatch{Name: fmt.Sprint("p", len(o.class.Spec.Patches))}
	for range definitions {
		definition := clusterv1.PatchDefinition{Selector: clusterv1.PatchSelector{APIVersion: "x.io/v1", Kind: kind, MatchResources: clusterv1.PatchSelectorMatch{
			MachineDeploymentClass: &clusterv1.PatchSelectorMatchMachineDeploymentClass{Names: []string{"w*"}}}}}
		for i := range changes {
			definition.JSONPatches = append(definition.JSONPatches, clusterv1.JSONPatch{Op: "add", Path: fmt.Sprint("/spec/template/spec/labels/k", i), ValueFrom: &from})
		}
		patch.Definitions = append(patch.Definitions, definition)
	}
	o.class.Spec.Patches = append(o.class.Spec.Patches, patch)
	return o
}

func (o *topologyOf) variable(value string, schema clusterv1.JSONSchemaProps) *topologyOf {
	o.class.Spec.Variables = []clusterv1.ClusterClassVariable{{Name: "v", Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}
	if value != "" {
		o.cluster.Spec.Topology.Variables = []clusterv1.ClusterVariable{{Name: "v", Value: apiextensionsv1.JSON{Raw: []byte(value)}}}
	}
	return o
}

func (o *topologyOf) annotated(size int) *topologyOf {
	o.cluster.Annotations = map[string]string{"a": strings.Repeat("B", size)}
	return o
}

// What is small where it is written, and megabytes where Cluster API has made all of a Cluster of it, is refused when it is written and
// when the controller reads it; what ordinary classes are is not.
func TestTopology_isBounded(t *testing.T) {
	text, long := clusterv1.JSONSchemaProps{Type: "string"}, `"`+strings.Repeat("A", 31_000)+`"`
	byDefault := text
	byDefault.Default = &apiextensionsv1.JSON{Raw: []byte(long)}
	fromVariable, fromTemplate := clusterv1.JSONPatchValue{Variable: "v"}, func(text string) clusterv1.JSONPatchValue { return clusterv1.JSONPatchValue{Template: text} }
	defaults := clusterv1.JSONSchemaProps{Type: "array", Items: &clusterv1.JSONSchemaProps{Type: "object", Properties: map[string]clusterv1.JSONSchemaProps{"a": byDefault}}}
	classMetadata := newTopology(60)
	classMetadata.class.Spec.Workers.MachineDeployments[0].Metadata.Annotations = map[string]string{"a": strings.Repeat("x", 100_000)}
	manyClasses := newTopology(0).userdata("XConfigTemplate", 500_000)
	for i := range 10 {
		workers := manyClasses.class.Spec.Workers.MachineDeployments[0]
		workers.Class = fmt.Sprint("w", i)
		manyClasses.class.Spec.Workers.MachineDeployments = append(manyClasses.class.Spec.Workers.MachineDeployments, workers)
	}
	pools := newTopology(0)
	pools.cluster.Spec.Topology.Workers.MachinePools = make([]clusterv1.MachinePoolTopology, 300)
	literal := newTopology(60).patched("XMachineTemplate", 1, 10, clusterv1.JSONPatchValue{})
	for i := range 10 {
		literal.class.Spec.Patches[0].Definitions[0].JSONPatches[i] = clusterv1.JSONPatch{Op: "add", Path: "/a", Value: &apiextensionsv1.JSON{Raw: []byte(long)}}
	}
	// Kubeadm's configuration, cloud-init and twenty patches with the builtin variables that all classes use.
	ordinary := func(machineDeployments int) *topologyOf {
		o := newTopology(machineDeployments).userdata("XConfigTemplate", 8_000).annotated(2_000).variable(`"`+strings.Repeat("x", 400)+`"`, text)
		o.patched("XConfigTemplate", 1, 5, fromVariable).patched("XMachineTemplate", 2, 3, clusterv1.JSONPatchValue{Variable: "builtin.machineDeployment.version"})
		o.patched("XMachineTemplate", 1, 3, fromTemplate(`{{ if semverCompare ">= v1.30" .builtin.controlPlane.version }}{{ printf "%s-%s" .builtin.cluster.name .v | quote }}{{ end }}`))
		return o.patched("XConfigTemplate", 1, 3, fromTemplate("content: |\n  {{ .v | trim | nindent 4 }}\n"))
	}
	for name, tt := range map[string]struct {
		made    *topologyOf
		refused string
	}{
		"a variable in each of a thousand patches": {newTopology(1).variable(long, text).patched("XMachineTemplate", 10, 100, fromVariable), "patches insert"},
		"its default":                        {newTopology(1).variable("", byDefault).patched("XMachineTemplate", 10, 100, fromVariable), "patches insert"},
		"an element of it":                   {newTopology(1).variable(`[`+long+`]`, text).patched("XMachineTemplate", 10, 100, clusterv1.JSONPatchValue{Variable: "v[0]"}), "patches insert"},
		"its template":                       {newTopology(1).variable(long, text).patched("XMachineTemplate", 10, 100, fromTemplate("{{ .v }}")), "patches insert"},
		"in a template by another name":      {newTopology(1).variable(long, text).patched("XMachineTemplate", 10, 100, fromTemplate("{{ with .v }}{{ . }}{{ end }}")), "patches insert"},
		"often in few templates":             {newTopology(1).variable(long, text).patched("XMachineTemplate", 1, 2, fromTemplate(strings.Repeat("{{ .v }}", 100))), "patches insert"},
		"indented in few templates":          {newTopology(10).variable(long, text).patched("XMachineTemplate", 1, 2, fromTemplate("{{ .v | indent 16 }}")), "patches insert"},
		"the Cluster's annotations":          {newTopology(1).annotated(250_000).patched("XMachineTemplate", 1, 49, clusterv1.JSONPatchValue{Variable: "builtin.cluster.metadata.annotations"}), "patches insert"},
		"all builtin variables":              {newTopology(1).annotated(250_000).patched("XMachineTemplate", 1, 49, fromTemplate("{{ .builtin.cluster.metadata | toJson }}")), "patches insert"},
		"all variables":                      {newTopology(1).annotated(250_000).patched("XMachineTemplate", 1, 49, fromTemplate("{{ . | toJson }}")), "patches insert"},
		"a large template for each":          {newTopology(60).userdata("XMachineTemplate", 520_000), "templates and metadata"},
		"a large template in each class":     {manyClasses, "templates and metadata"},
		"large metadata for each":            {classMetadata, "templates and metadata"},
		"a literal for each":                 {literal, "patches insert"},
		"too many machineDeployments":        {newTopology(101), "101 machineDeployments are more than 100"},
		"machinePools, which are not made":   {pools, "use machineDeployments"},
		"defaults for each object in a list": {newTopology(0).variable(`[`+strings.Repeat("{},", 200)+`{}]`, defaults), "defaults of their schemas"},
		"aliases in a variable":              {newTopology(1).variable(`"a: &a x\nb: [*a,*a]"`, text).patched("XMachineTemplate", 1, 1, fromTemplate("{{ .v }}")), "YAML with aliases"},
		"encoded":                            {newTopology(1).variable(`"a: \u0026a x\nb: [\u002aa,*a]"`, text).patched("XMachineTemplate", 1, 1, fromTemplate("{{ .v }}")), "YAML with aliases"},
		"in pieces":                          {newTopology(1).variable(`"&"`, text).patched("XMachineTemplate", 1, 1, fromTemplate("a: {{ .v }}a x\nb: {{ \"*\" }}a")), "YAML with aliases"},
		"taken apart":                        {newTopology(1).variable(`"a: &Qa x"`, text).patched("XMachineTemplate", 1, 1, fromTemplate("{{ .v | replace \"Q\" \"\" }}\nb: *a")), "YAML with aliases"},
		"a script":                           {newTopology(3).variable(`"ls *.log && rm -f /tmp/*.tmp & echo 2>&1"`, text).patched("XMachineTemplate", 1, 1, fromTemplate("{{ .v | trim | quote }}")), ""},
		"a template's script":                {newTopology(3).patched("XMachineTemplate", 1, 1, fromTemplate("- echo '*/5 * * * * root x' && true\n- {{ .builtin.cluster.name | quote }}")), ""},
		"an ordinary class":                  {ordinary(3), ""},
		"a hundred machineDeployments":       {ordinary(100), ""},
		"large user data":                    {newTopology(5).userdata("XConfigTemplate", 60_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeClient(t, tt.made.objects()...)
			response := (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "Cluster", tt.made.cluster, nil))
			err := reconcileTopology(t, c, tt.made.cluster)
			require.Equal(t, tt.refused == "", response.Allowed, response.Result)
			if tt.refused == "" {
				require.NoError(t, err)
				require.True(t, (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "ClusterClass", tt.made.class, nil)).Allowed)
				return
			}
			require.Contains(t, response.Result.Message, tt.refused)
			require.ErrorContains(t, err, tt.refused)
			labelled := tt.made.cluster.DeepCopy()
			labelled.Labels = map[string]string{"a": "b"}
			require.True(t, (&Webhook{Client: c, Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "Cluster", labelled, tt.made.cluster)).Allowed, "what is there can be let go")
		})
	}
	large := manyClasses
	response := (&Webhook{Client: fakeClient(t, large.objects()...), Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "ClusterClass", large.class, nil))
	require.False(t, response.Allowed, "the class alone is too large")
	withoutTemplates := newTopology(60)
	require.True(t, (&Webhook{Client: fakeClient(t, withoutTemplates.class), Patterns: &Patterns{}}).Handle(t.Context(), asked(t, "Cluster", withoutTemplates.cluster, nil)).Allowed,
		"the templates may come later")
}
