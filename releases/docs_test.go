package releases_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/releases"
)

// TestDocs: docs/releases.md lists each release of the built-in catalogue.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile("../docs/releases.md")
	require.NoError(t, err)
	catalogue, err := releases.Default()
	require.NoError(t, err)
	rows := 0
	for name, distribution := range catalogue.Distributions {
		for minor, listed := range distribution.Lines {
			require.Contains(t, string(content), fmt.Sprintf("| %s | %s | %s |\n", name, minor, strings.Join(listed, ", ")))
			rows++
		}
	}
	require.Equal(t, rows, strings.Count(string(content), "| k3s | ")+strings.Count(string(content), "| rke2 | "), "a row that the catalogue lacks")
}
