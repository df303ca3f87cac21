package v3_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// JSON names are Rancher's: manifests written for it apply unchanged.
func TestFieldsHaveRanchersNames(t *testing.T) {
	raw, err := json.Marshal(fullDriver().Spec)
	require.NoError(t, err)
	var spec map[string]any
	require.NoError(t, json.Unmarshal(raw, &spec))
	for _, name := range []string{"active", "addCloudCredential", "builtin", "checksum", "description", "displayName", "externalId", "uiUrl", "url", "whitelistDomains"} {
		require.Contains(t, spec, name)
		delete(spec, name)
	}
	for name := range spec {
		require.Contains(t, []string{"insecureSkipChecksum", "version", "providerIDTemplate"}, name, "an addition must be marked as one")
	}
	// Zero values that Rancher writes are written too.
	raw, err = json.Marshal(v3.NodeDriverSpec{URL: "local://"})
	require.NoError(t, err)
	require.JSONEq(t, `{"url":"local://","checksum":"","active":false,"insecureSkipChecksum":false}`, string(raw))
}

func TestDriverNameIsTheDisplayNameIfThereIsOne(t *testing.T) {
	nd := fullDriver()
	require.Equal(t, "acme", nd.DriverName())
	nd.Spec.DisplayName = ""
	require.Equal(t, "full", nd.DriverName())
}

// constants are the texts of a file's constants, by name.
func constants(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	out := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			out[spec.Names[0].Name] = text
		}
		return true
	})
	return out
}

// Conditions and reasons are one CamelCase word each, named after what they say, and no two are the same.
func TestConditionsAndReasonsAreWords(t *testing.T) {
	seen := map[string]string{}
	for name, text := range constants(t, "conditions.go") {
		require.Regexp(t, `^[A-Z][A-Za-z]*$`, text, name)
		kind := "Reason"
		if strings.HasSuffix(name, "Condition") {
			kind = "Condition"
		}
		require.Empty(t, seen[kind+text], "%s and %s are both %s", name, seen[kind+text], text)
		seen[kind+text] = name
	}
	require.Contains(t, seen, "ConditionReady")
}
