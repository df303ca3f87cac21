package guard

import (
	"fmt"
	"regexp"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// rendered is a template whose result is read as YAML: what is written in it, the variables that it reads, and whether it takes text apart.
type rendered struct {
	texts     []string
	variables map[string]int
	cuts      bool
}

// anchor and alias are where YAML may have them, in a text that another may follow.
var anchor, alias = regexp.MustCompile(`&([A-Za-z0-9_-]|\s*($|"|\\))`), regexp.MustCompile(`\*([A-Za-z0-9_-]|\s*($|"|\\))`)

// whole are the functions that take no text apart, so that what stands together in the result stood together before.
var whole = words(`and or not eq ne lt le gt ge len default empty ternary trim lower upper quote squote toJson mustToJson b64enc indent nindent semver semverCompare
	hasPrefix hasSuffix contains has hasKey regexMatch int int64 float64 toString sha256sum fail`)

// marks tell what of an alias is in a text: an anchor and an alias, or the characters that begin them.
type marks struct{ anchor, alias, ampersand, star bool }

func (m *marks) text(text string) {
	m.anchor, m.alias = m.anchor || anchor.MatchString(text), m.alias || alias.MatchString(text)
	m.ampersand, m.star = m.ampersand || strings.Contains(text, "&"), m.star || strings.Contains(text, "*")
}

func (m *marks) add(other marks) {
	m.anchor, m.alias = m.anchor || other.anchor, m.alias || other.alias
	m.ampersand, m.star = m.ampersand || other.ampersand, m.star || other.star
}

// checkAliases refuses templates that can render YAML with aliases: a few kilobytes of them are gigabytes.
func checkAliases(patches []insertion, variables map[string]*marks) error {
	for _, patch := range patches {
		for _, r := range patch.rendered {
			found := marks{}
			for _, text := range r.texts {
				found.text(text)
			}
			for name, one := range variables {
				if r.variables[name] > 0 || r.variables[anything] > 0 {
					found.add(*one)
				}
			}
			if found.anchor && found.alias || r.cuts && found.ampersand && found.star {
				return fmt.Errorf("spec.topology: a patch of the ClusterClass may render YAML with aliases, which are not expanded: " +
					"write no &name and *name in its template and variables, or use valueFrom.variable")
			}
		}
	}
	return nil
}

// markVariables looks at all values that templates are given.
func markVariables(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) map[string]*marks {
	out, plain := map[string]*marks{builtin: {}}, strings.NewReplacer(`\u0026`, "&", `\u002a`, "*", `\u002A`, "*")
	add := func(name string, raw []byte) {
		if out[name] == nil {
			out[name] = &marks{}
		}
		out[name].text(plain.Replace(string(raw)))
	}
	for _, variable := range variablesOf(cluster) {
		add(variable.Name, variable.Value.Raw)
	}
	for i := range class.Spec.Variables {
		eachDefault(&class.Spec.Variables[i].Schema.OpenAPIV3Schema, func(raw []byte) { add(class.Spec.Variables[i].Name, raw) })
	}
	for i := range class.Status.Variables {
		for j := range class.Status.Variables[i].Definitions {
			eachDefault(&class.Status.Variables[i].Definitions[j].Schema.OpenAPIV3Schema, func(raw []byte) { add(class.Status.Variables[i].Name, raw) })
		}
	}
	metadata := []clusterv1.ObjectMeta{{Labels: cluster.Labels, Annotations: annotationsOf(cluster)}, cluster.Spec.Topology.ControlPlane.Metadata, class.Spec.ControlPlane.Metadata}
	for _, one := range cluster.Spec.Topology.Workers.MachineDeployments {
		metadata = append(metadata, one.Metadata)
	}
	for _, one := range class.Spec.Workers.MachineDeployments {
		metadata = append(metadata, one.Metadata)
	}
	for _, one := range metadata {
		for _, values := range []map[string]string{one.Labels, one.Annotations} {
			for key, value := range values {
				out[builtin].text(key)
				out[builtin].text(value)
			}
		}
	}
	return out
}

func eachDefault(schema *clusterv1.JSONSchemaProps, do func(raw []byte)) {
	if schema.Default != nil {
		do(schema.Default.Raw)
	}
	for _, child := range children(schema) {
		eachDefault(child, do)
	}
}
