package guard

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster API executes a Go template that users write to name the machines of a MachineSet. It sets
// no bound, and `{{range 1000000000}}x{{end}}` writes a gigabyte. A template that passes here uses
// each of its values once and writes some kilobytes at most. `{{$ = print $ $ $}}` triples the
// output with each repetition, and so does `with`.

// maxNamingTemplate bounds a template, in bytes. The CRDs have the same bound.
const maxNamingTemplate = 256

// namingFunctions are the functions of text/template that a template may use. js is not among them,
// because it doubles each backslash.
var namingFunctions = strings.Fields("and or not eq ne lt le gt ge len index slice print println printf")

// plainFormat matches the formats that printf may have. Others can multiply their values, such as
// %x, or have a large width.
var plainFormat = regexp.MustCompile(`^([^%]|%%|%-?[0-9]{0,2}[sdv])*$`)

// Naming is the client of the controllers that name machines by a template.
type Naming struct{ client.Client }

// Get implements client.Reader.
func (c Naming) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return checkNaming(obj)
}

// checkNaming returns an error if Cluster API must not execute the template of an object.
func checkNaming(obj runtime.Object) error {
	text := ""
	switch is := obj.(type) {
	case *clusterv1.MachineSet:
		text = is.Spec.MachineNaming.Template
	case *clusterv1.MachineDeployment:
		text = is.Spec.MachineNaming.Template
	}
	if err := checkTemplate(text); err != nil {
		return fmt.Errorf("spec.machineNaming.template: %w", err)
	}
	return nil
}

// checkTemplate accepts a template that cannot be parsed: Cluster API never executes it, and
// rejects it.
func checkTemplate(text string) error {
	if len(text) > maxNamingTemplate {
		return fmt.Errorf("has more than %d bytes", maxNamingTemplate)
	}
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "{{", "}}", set); err != nil || tree.Root == nil {
		return nil //nolint:nilerr // it is never executed
	}
	if len(set) > 1 {
		return fmt.Errorf("templates in templates (define, block) are not supported")
	}
	return checkNode(tree.Root)
}

func checkNode(node parse.Node) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := checkNode(child); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		return checkPipe(n.Pipe)
	case *parse.IfNode:
		return checkIf(n)
	case *parse.WithNode:
		return fmt.Errorf("with is not supported: write the fields out")
	case *parse.RangeNode:
		return fmt.Errorf("range is not supported, because it may never end")
	case *parse.TemplateNode:
		return fmt.Errorf("templates in templates are not supported")
	}
	return nil
}

func checkIf(n *parse.IfNode) error {
	if err := checkPipe(n.Pipe); err != nil {
		return err
	}
	if err := checkNode(n.List); err != nil {
		return err
	}
	return checkNode(n.ElseList)
}

func checkPipe(pipe *parse.PipeNode) error {
	if len(pipe.Decl) > 0 {
		return fmt.Errorf("variables are not supported: write the fields out")
	}
	for _, command := range pipe.Cmds {
		for i, arg := range command.Args {
			if err := checkArgument(arg, command.Args[i+1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkArgument(arg parse.Node, after []parse.Node) error {
	switch n := arg.(type) {
	case *parse.IdentifierNode:
		return checkFunction(n.Ident, after)
	case *parse.PipeNode:
		return checkPipe(n)
	case *parse.ChainNode: // (…).field
		return checkArgument(n.Node, nil)
	}
	return nil
}

func checkFunction(name string, args []parse.Node) error {
	if !slices.Contains(namingFunctions, name) {
		return fmt.Errorf("function %s is not supported", name)
	}
	if name != "printf" {
		return nil
	}
	if len(args) > 0 {
		if format, ok := args[0].(*parse.StringNode); ok && plainFormat.MatchString(format.Text) {
			return nil
		}
	}
	return fmt.Errorf("the format of printf must be a constant with %%s, %%d or %%v, and a width of at most two digits")
}
