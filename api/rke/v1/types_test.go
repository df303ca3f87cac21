package v1_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func marshal(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

// An empty status and spec are written as nothing: Cluster API tells "unknown" from "no".
func TestZeroValuesAreNotWritten(t *testing.T) {
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEMachineStatus{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEClusterStatus{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEClusterSpec{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKECommonNodeConfig{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEControlPlaneSpec{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEControlPlaneStatus{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEBootstrapStatus{}))
	require.JSONEq(t, `{"initialization":{"provisioned":false}}`, marshal(t, rkev1.RKEClusterStatus{
		Initialization: rkev1.InfrastructureInitialization{Provisioned: new(false)}}))
	require.JSONEq(t, `{"operation":"","number":0,"outcome":""}`, marshal(t, rkev1.AttemptStatus{}))
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

// union is two files' constants.
func union(some, more map[string]string) map[string]string {
	maps.Copy(some, more)
	return some
}

// Labels, annotations and finalizers are names Kubernetes takes, and no two are one; Secret types are not among them.
func TestNamesAreNames(t *testing.T) {
	seen := map[string]string{}
	for name, text := range constants(t, "labels.go") {
		require.Empty(t, seen[text], "%s and %s are both %s", name, seen[text], text)
		seen[text] = name
		require.NotContains(t, text, "%")
		if strings.HasSuffix(name, "Namespace") {
			require.Empty(t, validation.IsDNS1123Label(text), name)
			continue
		}
		require.Empty(t, validation.IsQualifiedName(text), name)
		domain, _, ok := strings.Cut(text, "/")
		if ok && name != "BlockMoveAnnotation" && name != "MoveLabel" { // clusterctl's
			require.True(t, strings.HasSuffix(domain, "cattle.io"), "%s is in a domain that is not ours", name)
		}
	}
	require.Contains(t, seen, "drover.cattle.io/machine", "a finalizer that is renamed leaves machines that nobody lets go")
}

// Conditions, reasons, classes and phases are one CamelCase word each, and no two of a sort are the same.
func TestConditionsAndReasonsAreWords(t *testing.T) {
	seen := map[string]string{}
	for name, text := range union(constants(t, "conditions.go"), constants(t, "controlplane_reasons.go")) {
		require.Regexp(t, `^[A-Z][A-Za-z]*$`, text, name)
		sort := "reason"
		for _, mark := range []string{"Condition", "Class", "Phase"} {
			if strings.HasSuffix(name, mark) || strings.HasPrefix(name, mark) {
				sort = mark
			}
		}
		key := sort + " " + text
		require.Empty(t, seen[key], "%s and %s are both %s", name, seen[key], text)
		seen[key] = name
	}
	for _, phase := range []string{"Pending", "Creating", "Running", "Failed", "Deleting"} {
		require.Contains(t, seen, "Phase "+phase)
	}
}
