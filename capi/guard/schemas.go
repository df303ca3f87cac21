package guard

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// The schema of a ClusterClass's variable is compiled and run in our process. Its patterns are Go's regular expressions: half a kilobyte of them can
// be a program of 100 MB, no deadline ends a match, and what was compiled is kept until the process ends. Its rules are CEL, which has a
// budget, but not for the regular expressions in it. Sizes are in instructions of a compiled regular expression; `^.{1,253}$` has about 500.

const (
	// maxPattern bounds one pattern, maxPatterns all of a class, maxKept all different ones that a namespace has brought since the manager started.
	maxPattern, maxPatterns, maxKept = 2000, 20_000, 200_000
	// maxMatching bounds the instructions of a variable's patterns times the bytes of its value.
	maxMatching = 16 << 20
	// maxRulePattern bounds a regular expression in CEL, and all together in a template.
	maxRulePattern = 256
	// maxRules bounds the rules of a class, and maxRuled the variables that have any: one variable's may take a second.
	maxRules, maxRuled = 200, 16
	// maxSchemas bounds the schemas in a class: variables, properties, items.
	maxSchemas = 5000
)

// patternSize is about how many instructions a regular expression has when it is compiled, found without compiling it; any number above most
// stands for more than that. One that cannot be parsed is Cluster API's to refuse.
func patternSize(pattern string, most int) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return regexpSize(parsed, most)
}

func regexpSize(re *syntax.Regexp, most int) int {
	size, is := map[syntax.Op]int{syntax.OpLiteral: len(re.Rune), syntax.OpConcat: 0, syntax.OpCapture: 2, syntax.OpAlternate: len(re.Sub)}[re.Op]
	if !is {
		size = 1
	}
	for _, sub := range re.Sub {
		if size += regexpSize(sub, most); size > most {
			return most + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		// Both are at most 1000, by the parser.
		size *= max(re.Max, re.Min+1)
	}
	return min(size, most+1)
}

// schemaCheck goes through the schemas of a class.
type schemaCheck struct {
	schemas, rules, patterns int
	found                    map[string]int
}

// written are the variables' schemas in the spec of a class, by name; discovered those in its status, which Cluster API copies there and reads.
func written(class *clusterv1.ClusterClass) iter.Seq2[string, *clusterv1.JSONSchemaProps] {
	return func(yield func(string, *clusterv1.JSONSchemaProps) bool) {
		for i := range class.Spec.Variables {
			if !yield(class.Spec.Variables[i].Name, &class.Spec.Variables[i].Schema.OpenAPIV3Schema) {
				return
			}
		}
	}
}

func discovered(class *clusterv1.ClusterClass) iter.Seq2[string, *clusterv1.JSONSchemaProps] {
	return func(yield func(string, *clusterv1.JSONSchemaProps) bool) {
		for i := range class.Status.Variables {
			for j := range class.Status.Variables[i].Definitions {
				if !yield(class.Status.Variables[i].Name, &class.Status.Variables[i].Definitions[j].Schema.OpenAPIV3Schema) {
					return
				}
			}
		}
	}
}

// checkSchemas refuses schemas of variables that cost more than they look, and tells the size of each pattern in them.
func checkSchemas(class *clusterv1.ClusterClass) (patterns map[string]int, err error) {
	patterns = map[string]int{}
	check := func(at string, schemas iter.Seq2[string, *clusterv1.JSONSchemaProps]) error {
		c, ruled := &schemaCheck{found: patterns}, 0
		for name, schema := range schemas {
			before := c.rules
			if err := c.schema(schema); err != nil {
				return fmt.Errorf("%s[%s]: %w", at, name, err)
			}
			if c.rules > before {
				ruled++
			}
		}
		if ruled > maxRuled {
			return fmt.Errorf("%s: more than %d of them have x-kubernetes-validations", at, maxRuled)
		}
		return nil
	}
	if err := check("spec.variables", written(class)); err != nil {
		return nil, err
	}
	if err := check("status.variables", discovered(class)); err != nil {
		return nil, err
	}
	return patterns, nil
}

func (c *schemaCheck) schema(schema *clusterv1.JSONSchemaProps) error {
	if c.schemas++; c.schemas > maxSchemas {
		return fmt.Errorf("the class has more than %d schemas", maxSchemas)
	}
	if schema.Pattern != "" {
		size := patternSize(schema.Pattern, maxPattern)
		if size > maxPattern {
			return fmt.Errorf("a pattern is too large when it is compiled, for repetitions multiply what they repeat: use maxLength, or repeat less")
		}
		if c.patterns += size; c.patterns > maxPatterns {
			return fmt.Errorf("all patterns of the class are too large together when they are compiled: use maxLength, enum or fewer repetitions")
		}
		c.found[schema.Pattern] = size
	}
	for _, rule := range schema.XValidations {
		if c.rules++; c.rules > maxRules {
			return fmt.Errorf("the class has more than %d rules in x-kubernetes-validations", maxRules)
		}
		if err := errors.Join(checkRule(rule.Rule), checkRule(rule.MessageExpression)); err != nil {
			return fmt.Errorf("x-kubernetes-validations: %w", err)
		}
	}
	for _, child := range children(schema) {
		if err := c.schema(child); err != nil {
			return err
		}
	}
	return nil
}

// children are the schemas in a schema.
func children(schema *clusterv1.JSONSchemaProps) []*clusterv1.JSONSchemaProps {
	var out []*clusterv1.JSONSchemaProps
	for name := range schema.Properties {
		out = append(out, new(schema.Properties[name]))
	}
	for _, list := range [][]clusterv1.JSONSchemaProps{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	for _, one := range []*clusterv1.JSONSchemaProps{schema.AdditionalProperties, schema.Items, schema.Not} {
		if one != nil {
			out = append(out, one)
		}
	}
	return out
}

// checkRule refuses CEL whose regular expressions are large, or made when it runs. What cannot be parsed is Cluster API's to refuse.
func checkRule(rule string) error {
	if rule == "" {
		return nil
	}
	made, err := parser.NewParser(parser.Macros(parser.AllMacros...))
	if err != nil {
		return fmt.Errorf("making a parser of CEL: %w", err)
	}
	parsed, problems := made.Parse(common.NewTextSource(rule))
	if len(problems.GetErrors()) > 0 {
		return nil
	}
	var refused error
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(expr ast.Expr) {
		if expr.Kind() != ast.CallKind {
			return
		}
		call := expr.AsCall()
		if !slices.Contains([]string{"matches", "find", "findAll"}, call.FunctionName()) {
			return
		}
		args := call.Args()
		if !call.IsMemberFunction() && len(args) > 0 {
			args = args[1:]
		}
		if len(args) == 0 {
			return
		}
		pattern, isText := "", args[0].Kind() == ast.LiteralKind
		if isText {
			pattern, isText = args[0].AsLiteral().Value().(string)
		}
		if !isText {
			refused = fmt.Errorf("function %s takes a regular expression that is written out", call.FunctionName())
		} else if patternSize(pattern, maxRulePattern) > maxRulePattern {
			refused = fmt.Errorf("the regular expression of function %s is too large when it is compiled: use size(), or repeat less", call.FunctionName())
		}
	}))
	return refused
}

// matching is the most instructions that stand against one byte of a value.
func matching(schema *clusterv1.JSONSchemaProps) int {
	own, deepest := patternSize(schema.Pattern, maxPattern), 0
	for _, list := range [][]clusterv1.JSONSchemaProps{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for i := range list {
			own += matching(&list[i])
		}
	}
	if schema.Not != nil {
		own += matching(schema.Not)
	}
	for name := range schema.Properties {
		deepest = max(deepest, matching(new(schema.Properties[name])))
	}
	for _, one := range []*clusterv1.JSONSchemaProps{schema.AdditionalProperties, schema.Items} {
		if one != nil {
			deepest = max(deepest, matching(one))
		}
	}
	return own + deepest
}

// Patterns are the different ones that each namespace's classes have brought: the library that matches them keeps every one that it has compiled.
type Patterns struct {
	mu   sync.Mutex
	kept map[string]map[[sha256.Size]byte]int
}

// keep counts the patterns of a class.
func (p *Patterns) keep(namespace string, patterns map[string]int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]map[[sha256.Size]byte]int{}
	}
	kept, more, sum := p.kept[namespace], map[[sha256.Size]byte]int{}, 0
	for pattern, size := range patterns {
		if hash := sha256.Sum256([]byte(pattern)); kept[hash] == 0 {
			more[hash] = size
		}
	}
	for _, sizes := range []map[[sha256.Size]byte]int{kept, more} {
		for _, size := range sizes {
			sum += size
		}
	}
	if sum > maxKept {
		return fmt.Errorf("the ClusterClasses of this namespace have brought too many different patterns since the manager started: use those that are there")
	}
	if kept == nil {
		p.kept[namespace] = more
		return nil
	}
	maps.Copy(kept, more)
	return nil
}

// checkClassContent refuses a class whose templates or schemas are not executed.
func (p *Patterns) checkClassContent(class *clusterv1.ClusterClass) error {
	if err := checkObject(class); err != nil {
		return err
	}
	patterns, err := checkSchemas(class)
	if err != nil {
		return err
	}
	return p.keep(class.Namespace, patterns)
}

// Classes is what Cluster API's own controller and webhooks read ClusterClasses with: they compile what they read. To its webhooks a class is not there
// that is refused, or is another namespace's and does not list the one that is asked about: they let through what changes of a Cluster all the
// same, and a deleted one go.
type Classes struct {
	client.Client

	Patterns *Patterns
}

// Get implements client.Reader.
func (c Classes) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	class, ok := obj.(*clusterv1.ClusterClass)
	if !ok {
		return nil
	}
	refused := c.Patterns.checkClassContent(class)
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return refused
	}
	cluster := &clusterv1.Cluster{}
	if refused == nil && request.Kind.Kind == "Cluster" && json.Unmarshal(request.Object.Raw, cluster) == nil {
		_, refused = variableWeights(cluster, class)
	}
	if refused != nil || !rkev1.Allows(class, request.Namespace) {
		*class = clusterv1.ClusterClass{}
		return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusterclasses").GroupResource(), key.Name)
	}
	return nil
}
