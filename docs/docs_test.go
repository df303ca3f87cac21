package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named finds `folder TestName` in a text.
var named = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestSecurity: what the threat model promises is tried by tests that exist.
func TestSecurity(t *testing.T) {
	content, err := os.ReadFile("security.md")
	require.NoError(t, err)
	for _, found := range named.FindAllStringSubmatch(string(content), -1) {
		require.True(t, declared(t, found[1], found[2]), "there is no test %s in %s", found[2], found[1])
	}
	for _, row := range cases(string(content)) {
		require.Regexp(t, named, row, "an abuse case without a test")
	}
}

// cases are the rows of the tables of abuse cases.
func cases(text string) []string {
	_, text, _ = strings.Cut(text, "\n## Abuse cases\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return rows(text)
}

// rows are the lines of all tables but their heads.
func rows(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "|---"):
			out = out[:len(out)-1] // what stands above is the head
		case strings.HasPrefix(line, "|"):
			out = append(out, line)
		}
	}
	return out
}

// story finds a story in a text.
var story = regexp.MustCompile("story `([a-z-]+)`")

// TestScenarios: what users suffered from is shown not to happen, by stories and tests that exist; and no story is without one.
func TestScenarios(t *testing.T) {
	content, err := os.ReadFile("scenarios.md")
	require.NoError(t, err)
	all := rows(string(content))
	require.Greater(t, len(all), 30, "the tables are found")
	for _, row := range all {
		stories, tests := story.FindAllStringSubmatch(row, -1), named.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, append(stories, tests...), "shown by nothing: %s", row)
		for _, found := range stories {
			require.FileExists(t, filepath.Join("..", "e2e", "testdata", found[1]+".txtar"))
		}
		for _, found := range tests {
			require.True(t, declared(t, found[1], found[2]), "there is no test %s in %s", found[2], found[1])
		}
	}
}

// reason finds a reason's value in the source.
var reason = regexp.MustCompile(`(?m)Reason\s+= "([A-Za-z]+)"$`)

// TestReasons: each mistake of a cluster is shown by tests that exist, and each reason of a control plane has a row.
func TestReasons(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("development", "reasons.md"))
	require.NoError(t, err)
	table := string(content)
	require.Greater(t, len(rows(table)), 30, "the table is found")
	for _, row := range rows(table) {
		shown := named.FindAllStringSubmatch(row, -1)
		require.NotEmpty(t, shown, "shown by nothing: %s", row)
		for _, found := range shown {
			require.True(t, declared(t, found[1], found[2]), "there is no test %s in %s", found[2], found[1])
		}
	}
	source, err := os.ReadFile(filepath.Join("..", "api", "rke", "v1", "controlplane_reasons.go"))
	require.NoError(t, err)
	reasons := reason.FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(reasons), 40, "the reasons are found")
	for _, found := range reasons {
		require.Contains(t, table, "`"+found[1]+"`", "a reason without a row")
	}
}

// TestClusters_hosts: what is shown of hosts is what the example has, which an API server takes.
func TestClusters_hosts(t *testing.T) {
	content, err := os.ReadFile("clusters.md")
	require.NoError(t, err)
	example, err := os.ReadFile(filepath.Join("..", "examples", "hosts.yaml"))
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(content), "\n## Hosts that you have already\n")
	_, shown, _ = strings.Cut(shown, "\n```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, shown, "kind: GenericMachineTemplate\n")
	require.Contains(t, string(example), shown)
}

// declared tells whether a folder's tests have a function of that name.
func declared(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if function, is := declaration.(*ast.FuncDecl); is && function.Recv == nil && function.Name.Name == name {
				return true
			}
		}
	}
	return false
}

func TestSecurity_itself(t *testing.T) {
	require.True(t, declared(t, "docs", "TestSecurity"))
	require.False(t, declared(t, "docs", "TestSecurit"))
	require.False(t, declared(t, "nowhere", "TestSecurity"))
	content, err := os.ReadFile("security.md")
	require.NoError(t, err)
	require.Greater(t, len(cases(string(content))), 20, "the tables are found")
	require.NotRegexp(t, named, "| a case | what stops it | – |")
}
