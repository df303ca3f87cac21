package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

const marker = "// +kubebuilder:rbac:"

// Markers are the rules that the source of a folder says it needs, as controller-gen reads them; subfolders are not looked
// into.
func Markers(tb testing.TB, dir string) []rbacv1.PolicyRule {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(tb, err)
	var out []rbacv1.PolicyRule
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(tb, err)
		for line := range strings.Lines(string(source)) {
			if text, is := strings.CutPrefix(strings.TrimSpace(line), marker); is {
				out = append(out, parseMarker(tb, text))
			}
		}
	}
	return out
}

func parseMarker(tb testing.TB, text string) rbacv1.PolicyRule {
	tb.Helper()
	var rule rbacv1.PolicyRule
	for part := range strings.SplitSeq(text, ",") {
		key, list, _ := strings.Cut(part, "=")
		values := strings.Split(strings.ReplaceAll(list, `"`, ""), ";")
		switch key {
		case "groups":
			rule.APIGroups = values
		case "resources":
			rule.Resources = values
		case "resourceNames":
			rule.ResourceNames = values
		case "verbs":
			rule.Verbs = values
		default:
			require.Fail(tb, "a marker that is not understood", text)
		}
	}
	return rule
}
