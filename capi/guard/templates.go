package guard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"
)

// Cluster API executes Go templates that users write: the names of machines (MachineDeployment, MachineSet, ClusterClass) and the patches of a
// ClusterClass, the latter with sprig's functions. Nothing bounds them there, and `{{range 1000000000}}x{{end}}` is a gigabyte. What is
// let through can only make text of about the size of what it was given.

const (
	// maxGrowing is how many functions that make text longer may stand in one pipeline, maxLiteral how long a text given to one that repeats it
	// may be, maxIndent the greatest indentation.
	maxGrowing, maxLiteral, maxIndent = 2, 4, 16
	// maxTemplateNodes bounds a template.
	maxTemplateNodes = 2000
)

// plainFunctions give nothing that is longer than what they are given, and of what characters it is; b64dec and fromJson could make YAML that expands.
var plainFunctions = strings.Fields(`and or not eq ne lt le gt ge len index slice default empty coalesce ternary trim trimAll trimSuffix trimPrefix trunc
	lower upper title untitle nospace contains hasPrefix hasSuffix has hasKey get first last rest initial kindOf kindIs typeOf typeIs int int64
	float64 toString atoi add add1 sub mul div mod max min round floor ceil fail semver semverCompare sha256sum sha1sum adler32sum
	substr abbrev uniq compact keys values pluck`)

// growingFunctions give a little more; toPrettyJson gives the square of what is nested deep.
var growingFunctions = strings.Fields(`quote squote toJson mustToJson b64enc printf print println cat replace join indent nindent list dict concat append
	splitList split html js urlquery kebabcase snakecase camelcase`)

// wide finds what makes a formatted text wide, or a character of a number.
var wide = regexp.MustCompile(`%[-+# 0]*(\*|[0-9]{3,}|[0-9]*\.([0-9]{3,}|\*)|\[|[^a-zA-Z%]*c)`)

// checkTemplate says what of a template is not executed. One that cannot be parsed is Cluster API's to refuse.
func checkTemplate(text string) error {
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	set := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "{{", "}}", set); err != nil {
		return nil //nolint:nilerr // it is never executed
	}
	if len(set) > 1 {
		return fmt.Errorf("templates in templates (define, block) are not executed: write the text out")
	}
	if tree.Root == nil {
		return nil
	}
	return (&templateCheck{}).node(tree.Root)
}

type templateCheck struct{ nodes, patterns int }

func (c *templateCheck) node(node parse.Node) error {
	if c.nodes++; c.nodes > maxTemplateNodes {
		return fmt.Errorf("the template has too many parts: split the patch")
	}
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := c.node(child); err != nil {
				return err
			}
		}
	case *parse.ActionNode:
		return c.pipe(n.Pipe)
	case *parse.IfNode:
		return c.branch(&n.BranchNode)
	case *parse.WithNode:
		return c.branch(&n.BranchNode)
	case *parse.RangeNode:
		return fmt.Errorf("range is not executed, for it may have no end: write the elements out, or patch with valueFrom.variable")
	case *parse.TemplateNode:
		return fmt.Errorf("templates in templates are not executed: write the text out")
	}
	return nil
}

func (c *templateCheck) branch(n *parse.BranchNode) error {
	if err := c.pipe(n.Pipe); err != nil {
		return err
	}
	if err := c.node(n.List); err != nil {
		return err
	}
	return c.node(n.ElseList)
}

// pipe checks a pipeline with all in parentheses. What is kept in a variable can be used again and again, so nothing grows on the way there.
func (c *templateCheck) pipe(pipe *parse.PipeNode) error {
	growing := 0
	if err := c.commands(pipe, &growing); err != nil {
		return err
	}
	if growing > maxGrowing {
		return fmt.Errorf("more than %d functions that make text longer stand in one pipeline", maxGrowing)
	}
	if growing > 0 && len(pipe.Decl) > 0 {
		return fmt.Errorf("a variable keeps only what no function made longer: use the function where the variable is used")
	}
	return nil
}

func (c *templateCheck) commands(pipe *parse.PipeNode, growing *int) error {
	for _, command := range pipe.Cmds {
		for i, arg := range command.Args {
			if c.nodes++; c.nodes > maxTemplateNodes {
				return fmt.Errorf("the template has too many parts: split the patch")
			}
			switch n := arg.(type) {
			case *parse.IdentifierNode:
				if err := c.function(n.Ident, command.Args[i+1:], growing); err != nil {
					return err
				}
			case *parse.PipeNode:
				if len(n.Decl) > 0 {
					return fmt.Errorf("variables in parentheses are not executed")
				}
				if err := c.commands(n, growing); err != nil {
					return err
				}
			case *parse.ChainNode:
				if inner, ok := n.Node.(*parse.PipeNode); ok {
					if err := c.commands(inner, growing); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// constants are how many of a function's first arguments must be literals: with computed ones, its result has no bound.
var constants = map[string]int{"replace": 2, "join": 1, "printf": 1, "indent": 1, "nindent": 1}

func (c *templateCheck) function(name string, args []parse.Node, growing *int) error {
	if name == "regexMatch" {
		pattern, ok := (*parse.StringNode)(nil), false
		if len(args) > 0 {
			pattern, ok = args[0].(*parse.StringNode)
		}
		if !ok {
			return fmt.Errorf("argument 1 of function regexMatch is a constant, or it is not executed")
		}
		if c.patterns += patternSize(pattern.Text, maxRulePattern); c.patterns > maxRulePattern {
			return fmt.Errorf("the regular expressions of the template are too large when they are compiled: repeat less")
		}
		return nil
	}
	if slices.Contains(plainFunctions, name) {
		return nil
	}
	if !slices.Contains(growingFunctions, name) {
		return fmt.Errorf("function %s is not executed", name)
	}
	*growing++
	for i := range max(constants[name], len(args)) {
		if i >= len(args) || args[i].Type() != parse.NodeString && args[i].Type() != parse.NodeNumber {
			if i < constants[name] {
				return fmt.Errorf("argument %d of function %s is a constant, or it is not executed", i+1, name)
			}
			continue
		}
		if err := literal(name, args[i]); err != nil {
			return err
		}
	}
	return nil
}

// literal says why a function is not executed with a constant argument.
func literal(name string, arg parse.Node) error {
	switch constant := arg.(type) {
	case *parse.StringNode:
		if (name == "replace" || name == "join") && len(constant.Text) > maxLiteral {
			return fmt.Errorf("function %s is not executed with a text of more than %d characters", name, maxLiteral)
		}
		if name == "printf" && wide.MatchString(constant.Text) {
			return fmt.Errorf("function printf is not executed with a wide format")
		}
	case *parse.NumberNode:
		if constant.Int64 > maxIndent && strings.HasSuffix(name, "indent") {
			return fmt.Errorf("function %s is not executed with more than %d", name, maxIndent)
		}
	}
	return nil
}

// checkTemplates looks for templates in an object of Cluster API's, wherever they stand, but in what is data only. It names the field.
func checkTemplates(at string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if key == "variables" || key == "value" {
				continue
			}
			text, is := child.(string)
			if is && (key == "template" || key == "enabledIf") {
				if err := checkTemplate(text); err != nil {
					return fmt.Errorf("%s.%s: %w", at, key, err)
				}
				continue
			}
			if err := checkTemplates(at+"."+key, child); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := checkTemplates(fmt.Sprintf("%s[%d]", at, i), child); err != nil {
				return err
			}
		}
	}
	return nil
}
