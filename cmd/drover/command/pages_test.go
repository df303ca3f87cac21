package command_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
)

var (
	// code finds code of a page: a block, an indented line, or a span.
	code = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^    [^\\n]*$|`[^`\\n]*`")
	// calls finds a call of drover with a command.
	calls = regexp.MustCompile("(?m)(?:^[ `]*|[|(;] *)drover ([a-z]+)")
)

// TestPages: each command of drover in the documentation exists.
func TestPages(t *testing.T) {
	root := command.New(command.Options{Name: "drover", Streams: genericiooptions.IOStreams{}})
	root.InitDefaultCompletionCmd()
	found := 0
	check := func(path string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, text := range code.FindAllString(string(content), -1) {
			for _, call := range calls.FindAllStringSubmatch(text, -1) {
				found++
				cmd, _, err := root.Find(call[1:2])
				require.NoError(t, err, "%s: %s", path, text)
				require.NotEqual(t, root, cmd, "%s: %s", path, text)
			}
		}
	}
	docs := filepath.Join("..", "..", "..", "docs")
	require.NoError(t, filepath.WalkDir(docs, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "decisions":
			return fs.SkipDir // decisions keep the words of their day
		case filepath.Ext(path) == ".md":
			check(path)
		}
		return nil
	}))
	check(filepath.Join(docs, "..", "README.md"))
	require.Greater(t, found, 100, "commands are found")
}
