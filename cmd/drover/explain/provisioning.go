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

// nextOn are the next steps for a condition of a provisioning Cluster: those in its message or, if an
// earlier manager wrote none, those for its reason.
func nextOn(c *metav1.Condition) []string {
	if _, next := advice.Split(c.Message); len(next) > 0 && !advice.Waits(c.Reason) {
		return append(cleanAll(next), nextProvisioning[1])
	}
	reason := c.Reason
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
	words := wordsOf(&c)
	ready := meta.FindStatusCondition(c.Conditions, provv1.ReadyCondition)
	if c.Deleting {
		r.Phase = rkev1.PhaseDeleting
	}
	switch {
	case r.holdPaused(&c):
		r.Phase = clusterv1.PausedReason
	case ready == nil:
		r.hold("NotReconciled", own{says: "No manager has reconciled the Cluster yet.", next: []string{nextManager}}, words)
	case ready.Status == metav1.ConditionTrue:
		r.Phase = provv1.ReadyCondition
	default:
		next := nextOn(ready)
		if c.Deleting && ready.Reason == provv1.DeletingReason {
			next = nextProvisioning[1:]
		}
		r.hold(ready.Reason, own{says: facts.Clean(problem(ready)), next: next}, words)
	}
	r.finish(command)
	return r
}

// wordsOf are the words for advice about a provisioning Cluster.
func wordsOf(c *facts.Object) advice.Words { return advice.Words{"ns": c.Namespace, "cluster": c.Name} }

// problem is the message of a condition without the next steps.
func problem(c *metav1.Condition) string {
	text, _ := advice.Split(c.Message)
	return sentence(text)
}

// holdPaused reports a paused provisioning Cluster. It returns false for another one.
func (r *Report) holdPaused(c *facts.Object) bool {
	paused := meta.FindStatusCondition(c.Conditions, provv1.PausedCondition)
	if paused == nil || paused.Status != metav1.ConditionTrue {
		return false
	}
	resume := resumeCAPI
	if strings.Contains(paused.Message, clusterv1.PausedAnnotation) {
		resume = resumeCluster
	}
	r.block(clusterv1.PausedReason, "Drover changes nothing: "+facts.Clean(problem(paused)), wordsOf(c).Fill(resume)...)
	return true
}

// phaseOf is the phase of a provisioning Cluster.
func phaseOf(c *facts.Object) string {
	switch {
	case c.Deleting:
		return rkev1.PhaseDeleting
	case meta.IsStatusConditionTrue(c.Conditions, provv1.PausedCondition):
		return clusterv1.PausedReason
	case meta.IsStatusConditionTrue(c.Conditions, provv1.ReadyCondition):
		return provv1.ReadyCondition
	}
	return "NotReady"
}

// held are the reasons of a provisioning Cluster for parts that are not rendered as specified.
var held = []string{provv1.PoolHoldsEtcdReason, provv1.TierUnsupportedReason, provv1.ConfigMissingReason, provv1.DriverInactiveReason, provv1.ConfigTakenReason, provv1.NameTakenReason,
	rkev1.ConfigInvalidReason, rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason, provv1.ReplacementPendingReason, provv1.RestoreIncompleteReason}

// foundless are the reasons of a provisioning Cluster that gets no first server. They cause all that the
// control plane waits for.
var foundless = []string{rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason}

// matches is the verdict about a cluster without a problem.
const matches = "The cluster matches its specification."

// isHeld reports whether the verdict begins with a part that the provisioning Cluster holds.
func (r *Report) isHeld() bool {
	if len(r.Verdict) == 0 {
		return false
	}
	reason, _, _ := strings.Cut(r.Verdict[0], ": ")
	return slices.Contains(held, reason)
}

// addProvisioning begins the report about a CAPI Cluster with its provisioning Cluster: its steps, and
// the parts that it does not render as they are specified.
func (r *Report) addProvisioning(s *facts.ClusterSnapshot) {
	c := s.Provisioning
	if c == nil {
		return
	}
	r.Related = append([]Related{{"CAPI Cluster", facts.Clean(c.Name), r.Phase}}, r.Related...)
	r.Subject, r.Phase = "Cluster "+c.Namespace+"/"+c.Name+" (provisioning.cattle.io)", phaseOf(c)
	capi := slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.Name == rkev1.ReadyCondition })
	r.Steps = append(timeline(c.Conditions, provisioningSteps), capi...)
	if !c.Deleting && r.holdPaused(c) {
		return
	}
	r.reportHeld(c)
	if ready := meta.FindStatusCondition(c.Conditions, provv1.ReadyCondition); r.Blocker == nil && ready != nil && ready.Status == metav1.ConditionFalse && !r.isHeld() {
		// The control plane is reconciled, and a pool lacks machines.
		r.Verdict = append([]string{facts.Clean(problem(ready))}, slices.DeleteFunc(r.Verdict, func(line string) bool { return line == matches })...)
		r.Blocker = &Blocker{Step: ready.Type, Reason: ready.Reason}
		r.reportServers(s, func(*clusterv1.Machine, metav1.Condition) bool { return true })
	}
	if r.Blocker != nil && len(r.Next) == 0 {
		r.advise(own{next: nextProvisioning[1:]}, wordsOf(c))
	}
	if without := meta.FindStatusCondition(c.Conditions, provv1.NotActedOnCondition); without != nil && without.Status == metav1.ConditionTrue {
		r.Verdict = append(r.Verdict, "Warning: "+problem(without)+".")
		for _, next := range wordsOf(c).Fill(nextOn(without)[0]) {
			r.Next = appendCommand(r.Next, next)
		}
	}
}

// reportHeld reports the first condition of a provisioning Cluster about parts that are not rendered as
// they are specified.
func (r *Report) reportHeld(c *facts.Object) {
	for _, kind := range []string{provv1.RKEClusterCondition, provv1.UpdatedCondition, provv1.MachinesUpToDateCondition} {
		found := meta.FindStatusCondition(c.Conditions, kind)
		if found == nil || found.Status != metav1.ConditionFalse || !slices.Contains(held, found.Reason) || slices.Contains(r.told, found.Reason) {
			continue
		}
		if r.Blocker == nil {
			r.Verdict = slices.DeleteFunc(r.Verdict, func(line string) bool { return line == matches })
		} else if slices.Contains(foundless, found.Reason) {
			r.Verdict, r.Next, r.Blocker = nil, nil, nil
		}
		r.told = append(r.told, found.Reason)
		r.Verdict = append([]string{found.Reason + ": " + problem(found) + "."}, r.Verdict...)
		r.Next = append(wordsOf(c).Fill(nextOn(found)...), r.Next...)
		return
	}
}
