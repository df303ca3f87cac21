package guard

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// insertion is what a template or all of a patch's definition inserts into each object: so many bytes, and so many times the value of variables.
type insertion struct {
	selector clusterv1.PatchSelector
	fixed    int
	uses     map[string]int
	// marks are those that are written in a template, whose result is read as YAML; cuts tells that it takes text apart.
	marks marks
	cuts  bool
}

// insertions are what the patches of a class insert, by definition, and the templates in them.
func insertions(class *clusterv1.ClusterClass) (definitions, templates []insertion) {
	for _, patch := range class.Spec.Patches {
		enabled := template(patch.EnabledIf)
		templates = append(templates, enabled)
		for _, definition := range patch.Definitions {
			one := insertion{selector: definition.Selector, fixed: enabled.fixed, uses: maps.Clone(enabled.uses)}
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
				made := template(change.ValueFrom.Template)
				templates = append(templates, made)
				one.fixed += made.fixed
				for name, times := range made.uses {
					one.uses[name] += times
				}
			}
			definitions = append(definitions, one)
		}
	}
	return definitions, templates
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
func template(text string) insertion {
	one := insertion{uses: map[string]int{}}
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text, "{{", "}}", map[string]*parse.Tree{}); err == nil && tree.Root != nil {
		one.fixed = weigh([]byte(text))
		one.node(tree.Root)
	}
	return one
}

func (i *insertion) node(node parse.Node) {
	var branch *parse.BranchNode
	switch n := node.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, child := range n.Nodes {
				i.node(child)
			}
		}
	case *parse.TextNode:
		i.marks |= marksOf(string(n.Text))
	case *parse.ActionNode:
		i.pipe(n.Pipe)
	case *parse.IfNode:
		branch = &n.BranchNode
	case *parse.WithNode:
		branch = &n.BranchNode
	}
	if branch != nil {
		i.pipe(branch.Pipe)
		i.node(branch.List)
		i.node(branch.ElseList)
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
			i.cuts = i.cuts || !slices.Contains(whole, n.Ident)
		case *parse.StringNode:
			i.marks |= marksOf(n.Text)
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

// marks tell what of an alias is in a text: an anchor and an alias where YAML may have them, in a text that another may follow, or only the
// characters that begin them.
type marks uint8

const expands, mayExpand marks = 0b0011, 0b1100

var marked = []*regexp.Regexp{regexp.MustCompile(`&([A-Za-z0-9_-]|\s*($|"|\\))`), regexp.MustCompile(`\*([A-Za-z0-9_-]|\s*($|"|\\))`),
	regexp.MustCompile(`&`), regexp.MustCompile(`\*`)}

func marksOf(text string) marks {
	var out marks
	for i, mark := range marked {
		if mark.MatchString(text) {
			out |= 1 << i
		}
	}
	return out
}

// whole are the functions that take no text apart, so that what stands together in the result stood together before.
var whole = strings.Fields(`and or not eq ne lt le gt ge len default empty ternary trim lower upper quote squote toJson mustToJson b64enc indent nindent semver semverCompare
	hasPrefix hasSuffix contains has hasKey regexMatch int int64 float64 toString sha256sum fail`)

// checkAliases refuses templates that can render YAML with aliases, from their text and what they read: a few kilobytes of them are gigabytes.
func checkAliases(templates []insertion, variables map[string]marks) error {
	for _, one := range templates {
		found := one.marks
		for name, marks := range variables {
			if one.uses[name] > 0 || one.uses[anything] > 0 {
				found |= marks
			}
		}
		if found&expands == expands || one.cuts && found&mayExpand == mayExpand {
			return fmt.Errorf("spec.topology: a patch of the ClusterClass may render YAML with aliases, which are not expanded: " +
				"write no &name and *name in its template and variables, or use valueFrom.variable")
		}
	}
	return nil
}

// markVariables looks at all values that templates are given.
func markVariables(cluster *clusterv1.Cluster, class *clusterv1.ClusterClass) map[string]marks {
	out, plain := map[string]marks{}, strings.NewReplacer(`\u0026`, "&", `\u002a`, "*", `\u002A`, "*")
	add := func(name string, raw []byte) { out[name] |= marksOf(plain.Replace(string(raw))) }
	for _, variable := range variablesOf(cluster) {
		add(variable.Name, variable.Value.Raw)
	}
	for _, schemas := range []iter.Seq2[string, *clusterv1.JSONSchemaProps]{written(class), discovered(class)} {
		for name, schema := range schemas {
			eachDefault(schema, func(raw []byte) { add(name, raw) })
		}
	}
	ofTopology, ofClass := cluster.Spec.Topology.ControlPlane.Metadata, class.Spec.ControlPlane.Metadata
	metadata := []map[string]string{cluster.Labels, annotationsOf(cluster), ofTopology.Labels, ofTopology.Annotations, ofClass.Labels, ofClass.Annotations}
	for _, one := range cluster.Spec.Topology.Workers.MachineDeployments {
		metadata = append(metadata, one.Metadata.Labels, one.Metadata.Annotations)
	}
	for _, one := range class.Spec.Workers.MachineDeployments {
		metadata = append(metadata, one.Metadata.Labels, one.Metadata.Annotations)
	}
	for _, values := range metadata {
		for key, value := range values {
			out[builtin] |= marksOf(key) | marksOf(value)
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
