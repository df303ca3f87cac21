package guard

import (
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
