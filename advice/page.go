package advice

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// page is the address of the page with a heading for each reason.
const page = "https://github.com/drover-project/drover/blob/main/docs/troubleshooting.md#"

// unadvised are reasons whose conditions carry no advice, but which have a heading in the
// documentation.
var unadvised = sets.New(rkev1.WaitingForOwnerReason, rkev1.NodeSilentReason, rkev1.ServerNotSeenReason, rkev1.NotVerifiedReason,
	rkev1.BootstrapFormatUnknownReason, rkev1.AgentSecretsMissingReason, rkev1.WaitingForTokensReason, rkev1.WaitingForAuthoritiesReason,
	rkev1.WaitingForMachinesReason, rkev1.WaitingForPlanSecretReason, rkev1.WaitingForControlPlaneReason, rkev1.WaitingForTurnReason,
	rkev1.PlanDeliveredReason, rkev1.ApplyingPlanReason, rkev1.MachineDeletingReason)

// provisioned are the reasons of a provisioning Cluster. Its conditions and drover why have the next
// step.
var provisioned = sets.New(provv1.ImportedReason, provv1.ExternalInfrastructureReason, provv1.CAPIClusterMissingReason, provv1.RestoreIncompleteReason, provv1.ConfigMissingReason, provv1.DriverInactiveReason, provv1.ConfigTakenReason,
	provv1.PoolHoldsEtcdReason, provv1.ReplacementPendingReason, provv1.ReplacingMachinesReason, provv1.FieldsNotActedOnReason, provv1.RevertedReason, provv1.ApprovalIgnoredReason, provv1.NameInvalidReason)

// Page returns the address of the heading of a reason or class in docs/troubleshooting.md, and ""
// for a reason without a heading.
func Page(reason string) string {
	if !known(reason) {
		return ""
	}
	return page + strings.ToLower(reason)
}

// known reports whether docs/troubleshooting.md has a heading for the reason.
func known(reason string) bool {
	_, ofMachine := machine[reason]
	_, ofJob := results[reason]
	_, ofClass := classes[reason]
	_, ofControlPlane := controlPlane[reason]
	return ofMachine || ofJob || ofClass || ofControlPlane || len(drivers[reason]) > 0 || unadvised.Has(reason) || provisioned.Has(reason)
}
