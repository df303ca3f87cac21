package guard

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// insertion is what a definition of a patch inserts into each object that it selects: so many bytes, and so many times the value of variables.
type insertion struct {
	selector clusterv1.PatchSelector
	fixed    int
	uses     map[string]int
	rendered []rendered
}

func insertions(class *clusterv1.ClusterClass) []insertion {
	var out []insertion
	for _, patch := range class.Spec.Patches {
		enabled := insertion{uses: map[string]int{}}
		enabled.template(patch.EnabledIf)
		for _, definition := range patch.Definitions {
			one := insertion{selector: definition.Selector, fixed: enabled.fixed, uses: maps.Clone(enabled.uses), rendered: slices.Clone(enabled.rendered)}
			for _, change := range definition.JSONPatches {
				one.fixed += nodeWeight + len(change.Path)
				if change.Value != nil {
					one.fixed += weigh(change.Value.Raw)
				}
				if change.ValueFrom == nil {
					continue
				}
				if change.ValueFrom.Variable != "" {
					one.use(strings.Split(change.ValueFrom.Variable, "."), 1)
				}
				one.template(change.ValueFrom.Template)
			}
			out = append(out, one)
		}
	}
	return out
}

// use counts a variable, of the builtin ones those that are not what the Cluster's owner writes at the size of a name.
func (i *insertion) use(path []string, times int) {
	name, _, _ := strings.Cut(path[0], "[")
	if name == builtin && len(path) > 2 && path[2] != "metadata" {
		i.fixed += times * smallBuiltin
		return
	}
	i.uses[name] += times
}

// growth is about how many times longer a function makes a text that is written as JSON.
var growth = map[string]int{"quote": 2, "squote": 2, "toJson": 2, "mustToJson": 2, "b64enc": 2, "replace": 5, "join": 2, "indent": 9, "nindent": 9,
	"splitList": 4, "split": 12, "html": 5, "js": 6, "urlquery": 3, "kebabcase": 2, "snakecase": 2, "camelcase": 2}

// padded finds what makes a formatted text up to 34 times as long as its format, escaped what makes it up to three times as long as its values.
var padded, escaped = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{2}`), regexp.MustCompile(`%[^sdvtf%]`)

// template counts what a template can make. One that is not executed, checkTemplate refuses.
func (i *insertion) template(text string) {
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text, "{{", "}}", map[string]*parse.Tree{}); err != nil || tree.Root == nil {
		return
	}
	one := insertion{fixed: weigh([]byte(text)), uses: map[string]int{}, rendered: []rendered{{}}}
	one.node(tree.Root)
	one.rendered[0].variables = one.uses
	i.fixed, i.rendered = i.fixed+one.fixed, append(i.rendered, one.rendered...)
	for name, times := range one.uses {
		i.uses[name] += times
	}
}

func (i *insertion) node(node parse.Node) {
	branch := func(n *parse.BranchNode) {
		i.pipe(n.Pipe)
		i.node(n.List)
		i.node(n.ElseList)
	}
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				i.node(child)
			}
		}
	case *parse.TextNode:
		i.rendered[0].texts = append(i.rendered[0].texts, string(n.Text))
	case *parse.ActionNode:
		i.pipe(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	}
}

func (i *insertion) pipe(pipe *parse.PipeNode) {
	times, read := 1, [][]string{}
	var walk func(node parse.Node)
	walk = func(node parse.Node) {
		switch n := node.(type) {
		case *parse.PipeNode:
			for _, command := range n.Cmds {
				for _, arg := range command.Args {
					walk(arg)
				}
			}
		case *parse.ChainNode:
			walk(n.Node)
		case *parse.IdentifierNode:
			times = min(times*max(growth[n.Ident], 1), 1000)
			i.rendered[0].cuts = i.rendered[0].cuts || !slices.Contains(whole, n.Ident)
		case *parse.StringNode:
			i.rendered[0].texts = append(i.rendered[0].texts, n.Text)
		case *parse.FieldNode:
			read = append(read, n.Ident)
		case *parse.DotNode, *parse.VariableNode:
			read = append(read, []string{anything})
		}
	}
	walk(pipe)
	text := pipe.String()
	if escaped.MatchString(text) {
		times *= 3
	}
	if padded.MatchString(text) {
		i.fixed += 34 * len(text)
	}
	i.fixed += times * len(text)
	for _, path := range read {
		i.use(path, times)
	}
}

// selects reports whether a definition is for a template: of a kind, for the infrastructure cluster, the control plane, or a class of workers.
func selects(selector clusterv1.PatchSelector, ref clusterv1.ClusterClassTemplateReference, role, class string) bool {
	if selector.APIVersion != ref.APIVersion || selector.Kind != ref.Kind {
		return false
	}
	match := selector.MatchResources
	switch role {
	case "infrastructure":
		return match.InfrastructureCluster != nil && *match.InfrastructureCluster
	case "controlPlane":
		return match.ControlPlane != nil && *match.ControlPlane
	}
	if match.MachineDeploymentClass == nil {
		return false
	}
	for _, name := range match.MachineDeploymentClass.Names {
		if name == class || strings.HasPrefix(name, "*") && strings.HasSuffix(class, name[1:]) || strings.HasSuffix(name, "*") && strings.HasPrefix(class, name[:len(name)-1]) {
			return true
		}
	}
	return false
}

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
