package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// link finds the target of a link, without the addresses of other sites.
	link = regexp.MustCompile(`\]\(([^)\s:]+)\)`)
	// title finds a heading.
	title = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// block finds a block of code, in which # is a comment.
	block = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// code finds code within a line, where brackets do not make a link.
	code = regexp.MustCompile("`[^`\n]*`")
	// dropped finds what GitHub leaves out of an anchor.
	dropped = regexp.MustCompile(`[^\pL\pN_ -]`)
	// linked finds a link in a heading, of which the anchor has the text only.
	linked = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// TestLinks: each link of a page leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	found := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, path), ""), -1) {
			found++
			file, anchor, _ := strings.Cut(match[1], "#")
			target := filepath.Join(filepath.Dir(path), file)
			if file == "" {
				target = path
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", path, match[1])
			if anchor != "" && filepath.Ext(target) == ".md" {
				require.Contains(t, anchors(read(t, target)), anchor, "%s links to %s", path, match[1])
			}
		}
		return nil
	}))
	require.Greater(t, found, 200, "links are found")
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var out []string
	seen := map[string]int{}
	for _, match := range title.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		text := dropped.ReplaceAllString(linked.ReplaceAllString(match[1], "$1"), "")
		anchor := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), " ", "-")
		if n := seen[anchor]; n > 0 {
			out = append(out, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			out = append(out, anchor)
		}
		seen[anchor]++
	}
	return out
}

func TestLinks_itself(t *testing.T) {
	require.Equal(t, []string{"a-state-secret-that-was-deleted", "spec-and-status", "spec-and-status-1"},
		anchors("# A state Secret, that was deleted\n```sh\n# no heading\n```\n## `spec` and status\n## spec and [status](x.md)\n"))
}
