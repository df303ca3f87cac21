package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named finds `folder TestName` in a text.
var named = regexp.MustCompile("`([a-z0-9/]+) ((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// tests finds the name of a Go test in any text.
var tests = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)

// comment finds a comment of a page, which readers do not see.
var comment = regexp.MustCompile(`(?s)<!--.*?-->`)

// TestUserPages: only pages for developers name Go tests.
func TestUserPages(t *testing.T) {
	pages := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "development", path == "decisions":
			return fs.SkipDir
		case filepath.Ext(path) != ".md", path == "fuzzing.md":
			return nil
		}
		pages++
		require.Empty(t, tests.FindAllString(comment.ReplaceAllString(read(t, path), ""), -1), "%s names a Go test: move it to docs/development", path)
		return nil
	}))
	require.Greater(t, pages, 30)
}

// TestDevelopment: each test and story that a page for developers names exists.
func TestDevelopment(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("development", "*.md"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 5)
	for _, page := range pages {
		content := read(t, page)
		for _, found := range named.FindAllStringSubmatch(content, -1) {
			require.True(t, declared(t, found[1], found[2]), "%s: there is no test %s in %s", page, found[2], found[1])
		}
		for _, found := range story.FindAllStringSubmatch(content, -1) {
			require.FileExists(t, filepath.Join("..", "e2e", "testdata", found[1]+".txtar"), page)
		}
	}
}

// TestSecurity: each abuse case of the threat model has a row with the tests of its defence, and no other row exists.
func TestSecurity(t *testing.T) {
	shown := cases(read(t, filepath.Join("development", "security.md")))
	for _, row := range shown {
		require.Regexp(t, named, row, "an abuse case without a test")
	}
	require.Equal(t, firsts(cases(read(t, "security.md"))), firsts(shown))
}

// read returns the content of a page.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// firsts returns the first cell of each row.
func firsts(rows []string) []string {
	var out []string
	for _, row := range rows {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		out = append(out, cell)
	}
	return out
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

// TestScenarios: each problem is shown not to happen by a story or a test.
func TestScenarios(t *testing.T) {
	all := rows(read(t, filepath.Join("development", "scenarios.md")))
	require.Greater(t, len(all), 30, "the tables are found")
	for _, row := range all {
		require.True(t, story.MatchString(row) || named.MatchString(row), "shown by nothing: %s", row)
	}
}

// reason finds a reason's value in the source.
var reason = regexp.MustCompile(`(?m)Reason\s+= "([A-Za-z]+)"$`)

// TestReasons: each mistake of a cluster is shown by a test, and each reason of a control plane is on the page.
func TestReasons(t *testing.T) {
	page := read(t, filepath.Join("development", "reasons.md"))
	require.Greater(t, len(rows(page)), 30, "the table is found")
	for _, row := range rows(page) {
		require.Regexp(t, named, row, "shown by nothing")
	}
	reasons := reason.FindAllStringSubmatch(read(t, filepath.Join("..", "api", "rke", "v1", "controlplane_reasons.go")), -1)
	require.Greater(t, len(reasons), 40, "the reasons are found")
	for _, found := range reasons {
		require.Contains(t, page, "`"+found[1]+"`", "a reason without a row")
	}
}

// TestClusters_hosts: what is shown of hosts is what the example has, which an API server takes.
func TestClusters_hosts(t *testing.T) {
	content := read(t, "clusters.md")
	example := read(t, filepath.Join("..", "examples", "hosts.yaml"))
	_, shown, _ := strings.Cut(content, "\n## Hosts that you have already\n")
	_, shown, _ = strings.Cut(shown, "\n```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, shown, "kind: GenericMachineTemplate\n")
	require.Contains(t, example, shown)
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
	require.Greater(t, len(cases(read(t, "security.md"))), 20, "the tables are found")
	require.NotRegexp(t, named, "| a case | what stops it | – |")
}
