package provisioningcluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// quiet are reasons without an event: every Cluster passes them.
var quiet = []string{provv1.WaitingForMachinesReason, provv1.WaitingForControlPlaneReason, provv1.DeletingReason, clusterv1.PausedReason,
	rkev1.WaitingForOwnerReason, rkev1.WaitingForMachinesReason, rkev1.WaitingForTurnReason, rkev1.WaitingForServerReason, rkev1.WaitingForInfrastructureReason}

// maxNote is the longest note of an event that the API takes.
const maxNote = 1024

// event writes an event about the Cluster.
func (r *Reconciler) event(s *scope, kind, reason, note string) {
	if r.Recorder == nil {
		return
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote-len("…")], "") + "…"
	}
	r.Recorder.Eventf(s.Cluster, nil, kind, reason, provv1.RKEClusterCondition, "%s", note)
}

// emit writes events for what has changed since the last status: after the status was written, so
// that a change has one event.
func (r *Reconciler) emit(s *scope) {
	before := s.before.Status.Conditions
	of := []string{provv1.RKEClusterCondition, provv1.ProvisionedCondition, provv1.ReadyCondition}
	if len(s.rendered.Findings) == 0 {
		of = append(of, provv1.UpdatedCondition)
	}
	step.Emit(r.Recorder, s.Cluster, step.Transitions{Before: before, After: s.Status.Conditions, Quiet: quiet, Of: of,
		Notes: map[string]string{provv1.RenderedReason: "The objects of Cluster API match the Cluster", provv1.ReadyReason: "The Cluster is as its specification says"}})
	r.emitHeld(s)
	r.emitReplacement(s)
	r.emitDeletion(s)
}

// emitHeld writes one event about the parts that are newly held back.
func (r *Reconciler) emitHeld(s *scope) {
	updated := meta.FindStatusCondition(s.before.Status.Conditions, provv1.UpdatedCondition)
	if is := s.conditions.Get(provv1.UpdatedCondition); updated != nil && is != nil && updated.Message == is.Message {
		return // a long message is cut
	}
	var held []string
	reason := ""
	for _, finding := range s.rendered.Findings {
		if updated != nil && strings.Contains(updated.Message, finding.Cause()) {
			continue
		}
		if reason == "" {
			reason = finding.Reason
		}
		held = append(held, finding.String())
	}
	if len(held) > 0 {
		r.event(s, corev1.EventTypeWarning, reason, strings.Join(held, "; "))
	}
}

// emitReplacement writes events about replacements that wait, and about the end of one.
func (r *Reconciler) emitReplacement(s *scope) {
	was, is := s.before.Status.PendingReplacement, s.rendered.Pending
	upToDate := s.conditions.Get(provv1.MachinesUpToDateCondition)
	earlier := ptr.Deref(meta.FindStatusCondition(s.before.Status.Conditions, provv1.MachinesUpToDateCondition), metav1.Condition{})
	switch ignored := s.ignoredApproval(); {
	case is != nil && (was == nil || was.ID != is.ID):
		message, next := s.pending()
		r.event(s, corev1.EventTypeNormal, provv1.ReplacementPendingReason, message+". "+next)
	case ignored != "" && !strings.Contains(earlier.Message, ignored):
		r.event(s, corev1.EventTypeWarning, provv1.ApprovalIgnoredReason, ignored)
	case earlier.Reason == provv1.ReplacingMachinesReason && upToDate != nil && upToDate.Status == metav1.ConditionTrue:
		r.event(s, corev1.EventTypeNormal, provv1.ReplacementDoneReason, "all machines have the options of their Configs")
	}
}

// ignoredApproval says that the annotation approves another replacement than the one that waits; empty
// if it does not.
func (s *scope) ignoredApproval() string {
	given := s.Annotations[provv1.ApproveReplacementAnnotation]
	if s.rendered.Pending == nil || given == "" || given == s.rendered.Pending.ID || s.Spec.RKEConfig.MachineReplacement == provv1.ReplaceNever {
		return ""
	}
	return fmt.Sprintf("The approval of %.40s is for an earlier change and has no effect", given)
}

// noteReplaced notes the pool whose machine template a write has changed.
func (s *scope) noteReplaced(live, written client.Object) {
	was, isDeployment := live.(*clusterv1.MachineDeployment)
	is, ok := written.(*clusterv1.MachineDeployment)
	if isDeployment && ok && was.UID != "" && was.Spec.Template.Spec.InfrastructureRef != is.Spec.Template.Spec.InfrastructureRef {
		s.replaced = append(s.replaced, is.Labels[rkev1.MachinePoolLabel])
	}
}

// emitReplaced writes one event about the replacements that this reconcile has started. An approval is
// the one that the last status waited for.
func (r *Reconciler) emitReplaced(s *scope) {
	var texts []string
	for _, pool := range s.replaced {
		if effect := s.effects[pool]; effect.Replaced > 0 {
			texts = append(texts, effect.String())
		}
	}
	if len(texts) == 0 {
		return
	}
	reason := provv1.ReplacementStartedReason
	if was := s.before.Status.PendingReplacement; was != nil && s.Annotations[provv1.ApproveReplacementAnnotation] == was.ID {
		reason = provv1.ReplacementApprovedReason
	}
	r.event(s, corev1.EventTypeNormal, reason, strings.Join(texts, "; "))
}

// isReplacing reports whether machines of an earlier Config are being replaced: some exist, or the
// last of them is gone and its successor is not ready.
func (s *scope) isReplacing() bool {
	for _, machines := range s.older {
		if machines > 0 {
			return true
		}
	}
	earlier := meta.FindStatusCondition(s.before.Status.Conditions, provv1.MachinesUpToDateCondition)
	return slices.ContainsFunc(s.replaced, func(pool string) bool { return s.effects[pool].Replaced > 0 }) ||
		earlier != nil && earlier.Reason == provv1.ReplacingMachinesReason
}
