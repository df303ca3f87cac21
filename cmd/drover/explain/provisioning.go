package explain

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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

// nextOfReason are the first next steps for reasons of a provisioning Cluster, where a change of the
// Cluster is not the best one. docs/troubleshooting.md has more about each.
var nextOfReason = map[string]string{
	provv1.CAPIClusterMissingReason: "Finish the move or the restore. If the servers are gone for good, let Drover create others: " +
		"kubectl annotate clusters.provisioning.cattle.io {cluster} -n {ns} " + provv1.RenderedAnnotation + "-",
	provv1.ConfigMissingReason: "Create the Config that the message names, or activate its driver: drover drivers",
	provv1.ConfigTakenReason:   "Create a Config for this Cluster, and name it in machineConfigRef: kubectl edit clusters.provisioning.cattle.io {cluster} -n {ns}",
	provv1.NameTakenReason:     "Delete the object that the message names if it is not needed, or create the Cluster or the pool under another name",
}

// Next steps for a paused Cluster, by the place of the pause.
const (
	resumeCluster = "Resume the Cluster: kubectl annotate clusters.provisioning.cattle.io {cluster} -n {ns} " + clusterv1.PausedAnnotation + "-"
	resumeCAPI    = "Resume the CAPI Cluster: kubectl patch clusters.cluster.x-k8s.io {cluster} -n {ns} --type merge -p '{\"spec\":{\"paused\":false}}'"
)

// nextOn are the next steps for a reason of a provisioning Cluster.
func nextOn(reason string) []string {
	if first, known := nextOfReason[reason]; known {
		return []string{first, nextProvisioning[1]}
	}
	if slices.Contains(held, reason) || !advice.Waits(reason) {
		return nextProvisioning
	}
	return nextProvisioning[1:] // a change of the Cluster does not help
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
	paused := meta.FindStatusCondition(c.Conditions, provv1.PausedCondition)
	switch {
	case paused != nil && paused.Status == metav1.ConditionTrue:
		r.Phase = clusterv1.PausedReason
		resume := resumeCAPI
		if strings.Contains(paused.Message, clusterv1.PausedAnnotation) {
			resume = resumeCluster
		}
		r.hold(clusterv1.PausedReason, own{says: "Drover changes nothing while the Cluster or its CAPI Cluster is paused: " + facts.Clean(sentence(paused.Message)), next: []string{resume}}, words)
	case ready == nil:
		r.hold("NotReconciled", own{says: "No manager has reconciled the Cluster yet.", next: []string{nextManager}}, words)
	case ready.Status == metav1.ConditionTrue:
		r.Phase = provv1.ReadyCondition
	default:
		next := nextOn(ready.Reason)
		if c.Deleting && ready.Reason == provv1.DeletingReason {
			next = nextProvisioning[1:]
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
		r.Next = append(advice.Words{"ns": c.Namespace, "cluster": c.Name}.Fill(nextOn(found.Reason)...), r.Next...)
		return
	}
}
