package access

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Grant is one verb on one resource, as RBAC writes it: a subresource follows its resource after a
// slash, the core group is empty, * is everything. An empty Name is every name.
type Grant struct {
	Verb, Group, Resource, Name string
}

// String reads like a line of a Role.
func (g Grant) String() string {
	text := g.Verb + " " + g.Resource
	if g.Group != "" {
		text += "." + g.Group
	}
	if g.Name != "" {
		text += " " + g.Name
	}
	return text
}

// Covers reports whether the grant allows a request of that kind.
func (g Grant) Covers(use Grant) bool {
	covers := func(granted, used string) bool { return granted == "*" || granted == used }
	// */status is that subresource of every resource.
	subresource, every := strings.CutPrefix(g.Resource, "*/")
	return covers(g.Verb, use.Verb) && covers(g.Group, use.Group) && (g.Name == "" || g.Name == use.Name) &&
		(covers(g.Resource, use.Resource) || every && strings.HasSuffix(use.Resource, "/"+subresource))
}

// Grants are the single grants of rules.
func Grants(rules []rbacv1.PolicyRule) []Grant {
	var out []Grant
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						out = append(out, Grant{Verb: verb, Group: group, Resource: resource, Name: name})
					}
				}
			}
		}
	}
	return out
}

// Difference lists the mismatches of grants and requests.
type Difference struct {
	// Missing was used and is not granted.
	Missing []string
	// Unused is granted and was not used.
	Unused []string
}

// Compare compares grants with uses.
func Compare(granted, used []Grant) Difference {
	var out Difference
	for _, use := range used {
		if !slices.ContainsFunc(granted, func(g Grant) bool { return g.Covers(use) }) {
			out.Missing = append(out.Missing, use.String())
		}
	}
	for _, grant := range granted {
		if !slices.ContainsFunc(used, grant.Covers) {
			out.Unused = append(out.Unused, grant.String())
		}
	}
	for _, lines := range []*[]string{&out.Missing, &out.Unused} {
		slices.Sort(*lines)
		*lines = slices.Compact(*lines)
	}
	return out
}

const marker = "// +kubebuilder:rbac:"

// Markers are the rules that the source of a folder says it needs, as controller-gen reads them;
// subfolders are not looked into.
func Markers(tb testing.TB, dir string) []rbacv1.PolicyRule {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(tb, err)
	var out []rbacv1.PolicyRule
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(tb, err)
		for line := range strings.Lines(string(source)) {
			if text, is := strings.CutPrefix(strings.TrimSpace(line), marker); is {
				out = append(out, parseMarker(tb, text))
			}
		}
	}
	return out
}

func parseMarker(tb testing.TB, text string) rbacv1.PolicyRule {
	tb.Helper()
	var rule rbacv1.PolicyRule
	for part := range strings.SplitSeq(text, ",") {
		key, list, _ := strings.Cut(part, "=")
		values := strings.Split(strings.ReplaceAll(list, `"`, ""), ";")
		switch key {
		case "groups":
			rule.APIGroups = values
		case "resources":
			rule.Resources = values
		case "resourceNames":
			rule.ResourceNames = values
		case "verbs":
			rule.Verbs = values
		default:
			require.Fail(tb, "a marker that is not understood", text)
		}
	}
	return rule
}
