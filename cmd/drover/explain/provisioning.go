package explain

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/advice"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// provisioningSteps are the conditions of a provisioning Cluster, in the order of its steps.
var provisioningSteps = []string{provv1.RKEClusterCondition, provv1.ProvisionedCondition, provv1.MachinesUpToDateCondition, provv1.UpdatedCondition}

// nextProvisioning are the next steps for a provisioning Cluster.
var nextProvisioning = []string{
	"Change the Cluster: kubectl edit clusters.provisioning.cattle.io {cluster} -n {ns}",
	"See its conditions and events: kubectl describe clusters.provisioning.cattle.io {cluster} -n {ns}",
}

// Provisioning explains a provisioning Cluster for which no CAPI Cluster exists.
func Provisioning(c facts.Object, now time.Time, command string) *Report {
	r := &Report{APIVersion: listing.APIVersion, Kind: Kind, Subject: "Cluster " + c.Namespace + "/" + c.Name + " (provisioning.cattle.io)", Phase: "NotReady", now: now,
		Steps: timeline(c.Conditions, provisioningSteps)}
	words := advice.Words{"ns": c.Namespace, "cluster": c.Name}
	ready := meta.FindStatusCondition(c.Conditions, provv1.ReadyCondition)
	if c.Deleting {
		r.Phase = rkev1.PhaseDeleting
	}
	switch {
	case ready == nil:
		r.hold("NotReconciled", own{says: "No manager has reconciled the Cluster yet.", next: []string{nextManager}}, words)
	case ready.Status == metav1.ConditionTrue:
		r.Phase = provv1.ReadyCondition
	default:
		next := nextProvisioning
		if c.Deleting || advice.Waits(ready.Reason) {
			next = next[1:] // a change of the Cluster does not help
		}
		r.hold(ready.Reason, own{says: facts.Clean(sentence(ready.Message)), next: next}, words)
	}
	r.finish(command)
	return r
}

// held are the reasons of a provisioning Cluster for parts that are not rendered as specified.
var held = []string{provv1.PoolHoldsEtcdReason, provv1.TierUnsupportedReason, provv1.ConfigMissingReason, provv1.DriverInactiveReason, provv1.ConfigTakenReason, provv1.NameTakenReason,
	rkev1.ConfigInvalidReason, rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason}

// addProvisioning adds the provisioning Cluster to the report about its CAPI Cluster: the parts that
// it does not render as they are specified come first.
func (r *Report) addProvisioning(c *facts.Object) {
	if c == nil {
		return
	}
	r.Related = append([]Related{{"Cluster.provisioning", facts.Clean(c.Name), objectState(*c)}}, r.Related...)
	for _, kind := range []string{provv1.RKEClusterCondition, provv1.UpdatedCondition} {
		found := meta.FindStatusCondition(c.Conditions, kind)
		if found == nil || found.Status != metav1.ConditionFalse || !slices.Contains(held, found.Reason) {
			continue
		}
		r.told = append(r.told, found.Reason)
		r.Verdict = append([]string{found.Reason + ": " + sentence(found.Message) + "."}, r.Verdict...)
		r.Next = append(advice.Words{"ns": c.Namespace, "cluster": c.Name}.Fill(nextProvisioning...), r.Next...)
		return
	}
}
