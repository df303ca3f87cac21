package v1_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

func marshal(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

func TestCopiesShareNothing(t *testing.T) {
	status := fullStatus()
	before := marshal(t, status)
	changed := status.DeepCopy()
	require.Equal(t, before, marshal(t, changed))
	changed.Conditions[0].Message, changed.Addresses[0].Address, changed.LastAttempt.Message = "changed", "changed", "changed"
	*changed.Initialization.Provisioned = false
	for _, at := range []*metav1.Time{changed.NextAttemptTime, changed.LastAttempt.StartTime, changed.LastAttempt.EndTime} {
		at.Time = at.AddDate(1, 0, 0)
	}
	require.Equal(t, before, marshal(t, status))

	template := &rkev1.RKEClusterTemplate{Spec: rkev1.RKEClusterTemplateSpec{Template: rkev1.RKEClusterTemplateResource{
		ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}}
	list := &rkev1.RKEClusterTemplateList{Items: []rkev1.RKEClusterTemplate{*template}}
	clusters := &rkev1.RKEClusterList{Items: []rkev1.RKECluster{{Status: rkev1.RKEClusterStatus{Conditions: status.Conditions}}}}
	before = marshal(t, list) + marshal(t, clusters)
	list.DeepCopy().Items[0].Spec.Template.ObjectMeta.Labels["a"] = "changed"
	clusters.DeepCopy().Items[0].Status.Conditions[0].Reason = "changed"
	require.Equal(t, before, marshal(t, list)+marshal(t, clusters))

	scans := &rkev1.ServerScanList{Items: []rkev1.ServerScan{*fullScan("ns")}}
	before = marshal(t, scans)
	copied := &scans.DeepCopy().Items[0]
	copied.Spec.GracePeriod.Duration, copied.Status.Conditions[0].Reason, copied.Status.MachinesNotListed[0] = 0, "changed", "changed"
	copied.Status.Servers[0].Verdict = "changed"
	copied.Status.Servers[0].Created.Time, copied.Status.CompletionTime.Time = moment(9).Time, moment(9).Time
	require.Equal(t, before, marshal(t, scans))
	for _, nothing := range []runtime.Object{(*rkev1.RKECluster)(nil), (*rkev1.RKEClusterList)(nil), (*rkev1.RKEClusterTemplate)(nil), (*rkev1.RKEClusterTemplateList)(nil),
		(*rkev1.ServerScan)(nil), (*rkev1.ServerScanList)(nil)} {
		require.Nil(t, nothing.DeepCopyObject())
	}
}

// An empty status and spec are written as nothing: Cluster API tells "unknown" from "no".
func TestZeroValuesAreNotWritten(t *testing.T) {
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEMachineStatus{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEClusterStatus{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKEClusterSpec{}))
	require.JSONEq(t, `{}`, marshal(t, rkev1.RKECommonNodeConfig{}))
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
	for name, text := range constants(t, "conditions.go") {
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

func TestSchemeKnowsTheKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(scheme))
	for _, kind := range []string{"RKECluster", "RKEClusterList", "RKEClusterTemplate", "RKEClusterTemplateList", "ServerScan", "ServerScanList", "ListOptions"} {
		require.True(t, scheme.Recognizes(rkev1.GroupVersion.WithKind(kind)), kind)
	}
	require.False(t, scheme.Recognizes(rkev1.MachineGroupVersion.WithKind("PlainMachine")), "drivers' kinds have no Go types")
}
