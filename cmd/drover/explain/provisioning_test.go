package explain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/explain"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// TestProvisioning: a provisioning Cluster without a CAPI Cluster names its cause and a next step.
func TestProvisioning(t *testing.T) {
	taken := condition(provv1.ReadyCondition, metav1.ConditionFalse, provv1.NameTakenReason, "Cluster one exists and does not belong to this Cluster", 2)
	rendered := taken
	rendered.Type = provv1.RKEClusterCondition
	report := explain.Provisioning(facts.Object{Kind: "Cluster", Namespace: "shop", Name: "one", Replicas: -1, Conditions: []metav1.Condition{rendered, taken}}, now, "drover")
	require.Equal(t, provv1.NameTakenReason, report.Blocker.Reason)
	require.Contains(t, strings.Join(report.Verdict, " "), "Cluster one exists and does not belong to this Cluster")
	require.Contains(t, report.Next[0], "Delete the object that the message names")
	require.Equal(t, explain.StepFailed, report.Steps[0].State)

	report = explain.Provisioning(facts.Object{Kind: "Cluster", Namespace: "shop", Name: "one", Replicas: -1}, now, "drover")
	require.Equal(t, "NotReconciled", report.Blocker.Reason)
}

// TestCluster_provisioning: what the provisioning Cluster holds back comes first in the report of the
// CAPI Cluster.
func TestCluster_provisioning(t *testing.T) {
	s := clusterOf(done(rkev1.ReconciledCondition, rkev1.ReconciledReason, 2), done(rkev1.AvailableCondition, rkev1.APIAnswersReason, 2), done(rkev1.ReadyCondition, rkev1.ReadyReason, 2))
	s.Provisioning = &facts.Object{Kind: "Cluster", Namespace: "shop", Name: "one", Replicas: -1, Conditions: []metav1.Condition{
		condition(provv1.UpdatedCondition, metav1.ConditionFalse, provv1.PoolHoldsEtcdReason, "pool server: it holds the data", 2)}}
	report := explain.Cluster(s, "drover")
	require.Equal(t, "PoolHoldsEtcd: pool server: it holds the data.", report.Verdict[0])
	require.Contains(t, report.Next[0], "kubectl edit clusters.provisioning.cattle.io one -n shop")
	require.Equal(t, "Cluster shop/one (provisioning.cattle.io)", report.Subject)
	require.Equal(t, "CAPI Cluster", report.Related[0].Role)
	require.NotContains(t, report.Verdict, "The cluster matches its specification.")
}
