package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// target finds the head of a fuzz target in a file of tests.
var target = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// TestFuzzing: the page lists every fuzz target there is, once, and none that is not.
func TestFuzzing(t *testing.T) {
	content, err := os.ReadFile("fuzzing.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range rows(string(content)) {
		found := named.FindAllStringSubmatch(row, -1)
		require.Len(t, found, 1, row)
		listed = append(listed, found[0][1]+" "+found[0][2])
	}
	require.ElementsMatch(t, targets(t), listed)
}

// targets are the fuzz targets of all modules, as "folder name".
func targets(t *testing.T) []string {
	t.Helper()
	root, err := os.OpenRoot("..")
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	var all []string
	require.NoError(t, fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || path == "bin") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := fs.ReadFile(root.FS(), path)
		for _, found := range target.FindAllStringSubmatch(string(content), -1) {
			all = append(all, filepath.ToSlash(filepath.Dir(path))+" "+found[1])
		}
		return err
	}))
	return all
}
