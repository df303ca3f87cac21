package rkecontrolplane

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// quiet are reasons of which no event tells: every cluster and every machine passes them.
var quiet = []string{clusterv1.PausedReason, rkev1.WaitingForOwnerReason, rkev1.WaitingForInfrastructureReason, rkev1.WaitingForTokensReason, rkev1.WaitingForAuthoritiesReason,
	rkev1.WaitingForMachinesReason, rkev1.WaitingForPlanSecretReason, rkev1.WaitingForServerReason, rkev1.WaitingForControlPlaneReason, rkev1.WaitingForTurnReason,
	rkev1.WaitingForAgentReason, rkev1.ApplyingPlanReason, rkev1.WaitingForProbesReason, rkev1.PlanDeliveredReason, rkev1.MachineDeletingReason}

// tellOf writes an event for each condition of a control plane that is another than it was.
func (r *Reconciler) tellOf(obj *rkev1.RKEControlPlane, before []metav1.Condition) {
	of, passed := []string{rkev1.ReconciledCondition, rkev1.WarningsCondition}, quiet
	if obj.Status.Initialized { // before, no cluster's API answers
		of = append(of, rkev1.AvailableCondition)
	} else { // a worker may be made before the server
		passed = append(slices.Clone(quiet), rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason)
	}
	step.Emit(r.Recorder, obj, step.Transitions{Before: before, After: obj.Status.Conditions, Quiet: passed, Of: of,
		Notes: map[string]string{rkev1.ReconciledReason: "All machines are as the specification says", rkev1.APIAnswersReason: "The cluster's API answers"}})
}
