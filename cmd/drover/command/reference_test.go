package command_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/cmd/drover/command"
	"github.com/drover-project/drover/testkit/golden"
)

const marker = "<!-- What follows is written by: go test ./cmd/drover/command -run TestReference -update -->\n"

// TestReference keeps the second half of docs/cli.md equal to the commands' own help.
func TestReference(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "cli.md")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(raw), marker)
	require.True(t, found, "docs/cli.md lacks its marker")
	var want bytes.Buffer
	root := command.New(command.Options{Name: "drover", Streams: genericiooptions.IOStreams{}})
	reference(&want, root)
	golden.Require(t, file, before+marker+want.String())
}

// reference writes a command and those below it.
func reference(out *bytes.Buffer, cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		if !child.IsAvailableCommand() || child.Name() == "completion" || child.Name() == "help" {
			continue
		}
		fmt.Fprintf(out, "\n### %s\n\n%s\n\n", child.CommandPath(), strings.TrimSpace(firstOf(child.Long, child.Short)))
		fmt.Fprintf(out, "    %s\n", child.UseLine())
		if child.Example != "" {
			fmt.Fprintf(out, "\nExamples:\n\n%s\n", indent(child.Example))
		}
		child.InitDefaultHelpFlag()
		if usages := child.LocalNonPersistentFlags().FlagUsagesWrapped(110); usages != "" {
			fmt.Fprintf(out, "\nFlags:\n\n%s", indent(strings.TrimSuffix(usages, "\n"))+"\n")
		}
		reference(out, child)
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// indent makes a code block of text, whose own indentation is at least two.
func indent(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimRight("    "+strings.TrimPrefix(line, "  "), " "))
	}
	return strings.Join(lines, "\n")
}
