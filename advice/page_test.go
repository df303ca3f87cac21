package advice

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// heading finds the heading of a reason, which is one word.
var heading = regexp.MustCompile(`(?m)^### ([A-Z][A-Za-z]+)$`)

// TestReasonsHaveHeadings: docs/troubleshooting.md has one heading for each reason that advice knows, and no heading for another word.
func TestReasonsHaveHeadings(t *testing.T) {
	content, err := os.ReadFile("../docs/troubleshooting.md")
	require.NoError(t, err)
	var headings []string
	for _, found := range heading.FindAllStringSubmatch(string(content), -1) {
		headings = append(headings, found[1])
	}
	reasons := unadvised.Clone()
	for _, all := range []map[string]failure{results, classes} {
		reasons.Insert(slices.Collect(maps.Keys(all))...)
	}
	for _, all := range []map[string][]string{machine, controlPlane, drivers} {
		for reason, next := range all {
			if len(next) > 0 {
				reasons.Insert(reason)
			}
		}
	}
	require.ElementsMatch(t, reasons.UnsortedList(), headings)
	for _, reason := range headings {
		require.Equal(t, "https://github.com/drover-project/drover/blob/main/docs/troubleshooting.md#"+strings.ToLower(reason), Page(reason))
	}
	require.Empty(t, Page("AllReconciled"), "a condition that is good")
	require.Empty(t, Page("FromTheFuture"))
}
