package planner

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each rule for an argument has a source and a row in the docs, and a plan's record has room for all
// arguments that cannot change.
func TestArgumentRules(t *testing.T) {
	page, err := os.ReadFile("../docs/kinds/rkecontrolplane.md")
	require.NoError(t, err)
	fixed := 0
	for _, rule := range argumentRules {
		require.NotEmpty(t, rule.source, rule.name)
		row := "\n| `" + rule.name + "`"
		if rule.flag != "" {
			row = "`" + rule.flag + "` in `" + rule.name + "`"
		}
		require.True(t, strings.Contains(string(page), row), row)
		if rule.fixed {
			fixed++
		}
	}
	require.LessOrEqual(t, fixed, maxFixed)
}
