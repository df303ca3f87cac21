package advice

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
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
	reasons := unadvised.Union(provisioned)
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

// good are reasons of a provisioning Cluster that need no explanation.
var good = []string{provv1.ReadyReason, provv1.RenderedReason, provv1.MachinesUpToDateReason, provv1.NamedReason,
	provv1.ReplacementStartedReason, provv1.ReplacementApprovedReason, provv1.ReplacementDoneReason}

// TestReasonsOfProvisioningClusters: each reason of a provisioning Cluster has a heading, or is good.
func TestReasonsOfProvisioningClusters(t *testing.T) {
	content, err := os.ReadFile("../api/provisioning/v1/conditions.go")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)Reason\s+= "([A-Za-z]+)"$`).FindAllStringSubmatch(string(content), -1)
	require.Greater(t, len(found), 15, "the reasons are found")
	for _, reason := range found {
		require.Equal(t, slices.Contains(good, reason[1]), Page(reason[1]) == "", reason[1])
	}
}
