package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// TestAdviceIsComplete reads the constants from the source, so that a new reason without advice is found.
func TestAdviceIsComplete(t *testing.T) {
	for _, c := range []struct {
		file, kind string
		table      map[string]advice
	}{
		{"../../../api/rke/v1/conditions.go", "Reason", machineAdvice},
		{"../../../api/rke/v1/conditions.go", "Class", classAdvice},
		{"../../../api/management/v3/conditions.go", "Reason", driverAdvice},
		{"../../../api/rke/v1/attempt_reasons.go", "Reason", resultAdvice},
	} {
		t.Run(c.file+" "+c.kind, func(t *testing.T) {
			values := constants(t, c.file, c.kind)
			require.NotEmpty(t, values)
			for name, value := range values {
				about, known := c.table[value]
				require.True(t, known, "%s (%q) has no advice", name, value)
				require.NotEmpty(t, about.says, "%s (%q) says nothing", name, value)
			}
		})
	}
}

// constants are the string constants of a file whose name ends, or begins, with a word.
func constants(t *testing.T, file, word string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	values := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			literal, ok := spec.Values[i].(*ast.BasicLit)
			named := strings.HasSuffix(name.Name, word) || strings.HasPrefix(name.Name, word)
			if !ok || !named {
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			values[name.Name] = value
		}
		return true
	})
	return values
}

// TestAdviceHasNoUnknownWords finds a word in braces that nothing fills in.
func TestAdviceHasNoUnknownWords(t *testing.T) {
	machine := machineWords(&facts.Snapshot{Machine: &facts.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}}, "drover")
	driver := words{"cmd": "", "name": "", "url": "", "job": "", "pod": "", "podns": "", "ns": "", "node": ""}
	check := func(w words, table map[string]advice) {
		for reason, about := range table {
			for _, text := range append([]string{about.says}, about.next...) {
				require.Empty(t, placeholder.FindString(w.fill(text)), "%s: %s", reason, text)
			}
		}
	}
	check(machine, machineAdvice)
	check(machine, classAdvice)
	check(machine, podAdvice)
	check(machine, resultAdvice)
	check(driver, driverAdvice)
}

// TestFailuresTellWhatToDo: a reason that neither waits nor is a good end must leave the user with something to do.
func TestFailuresTellWhatToDo(t *testing.T) {
	good := map[string]bool{
		"Ready": true, "Delivered": true, "ServerListed": true, "ClusterInfrastructureReady": true, "DriverReady": true, "DriverFromStatus": true, "BootstrapDataReady": true,
		"CredentialNotNeeded": true, "CredentialRecalled": true, "CredentialReady": true, "JobSucceeded": true, "StateStored": true, "ProviderIDSet": true,
		"ServerGone": true, "NothingMade": true, "Cancelled": true, "CreateFailed": true, "ServerIncomplete": true,
		"Valid": true, "Downloaded": true, "Installed": true, "Compatible": true, "Builtin": true, "Established": true,
	}
	for _, table := range []map[string]advice{machineAdvice, classAdvice, driverAdvice, podAdvice, resultAdvice} {
		for reason, about := range table {
			require.True(t, good[reason] || len(about.next) > 0, reason)
		}
	}
}

// TestDriverReasonsHaveAdvice covers the reasons of package driver, each of which a probe or a create may end with.
func TestDriverReasonsHaveAdvice(t *testing.T) {
	for name, value := range constants(t, "../../../driver/errors.go", "Reason") {
		require.True(t, driverAdvice[value].says != "" || failureAdvice(value).says != "", "%s (%q) has no advice", name, value)
	}
}
