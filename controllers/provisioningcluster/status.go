package provisioningcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/provisioning"
)

// report sets the conditions and counters from the objects of Cluster API.
func (r *Reconciler) report(ctx context.Context, s *scope) error {
	controlPlane := &rkev1.RKEControlPlane{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s), controlPlane); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the RKEControlPlane %s: %w", s.Name, err)
	}
	current := controlPlane.Generation > 0 && controlPlane.Status.ObservedGeneration >= max(s.generations["RKEControlPlane/"+s.Name], controlPlane.Generation)
	reconciled, available := of(controlPlane, rkev1.ReconciledCondition), of(controlPlane, rkev1.AvailableCondition)
	if !current {
		reconciled = notRead
	}
	r.reportFields(s)
	r.reportUpdated(s, reconciled)
	r.reportProvisioned(s, controlPlane, reconciled)
	s.Status.AgentDeployed = available.Status == metav1.ConditionTrue
	s.ready(*s.conditions.Get(provv1.ProvisionedCondition), reconciled, available, r.reportPools(s))
	return nil
}

// ready sets Ready from its parts: the first that is not True gives its reason.
func (s *scope) ready(parts ...metav1.Condition) {
	for _, part := range parts {
		if part.Status != metav1.ConditionTrue {
			s.conditions.Repeat(provv1.ReadyCondition, part)
			if what, next := advice.Split(part.Message); len(next) == 0 && part.Reason == provv1.WaitingForMachinesReason {
				s.next[part.Reason] = []string{fmt.Sprintf("See which machine waits: drover describe cluster/%s -n %s", s.Name, s.Namespace)}
				s.conditions.False(provv1.ReadyCondition, part.Reason, what)
			}
			return
		}
	}
	s.conditions.True(provv1.ReadyCondition, provv1.ReadyReason, "")
	s.Status.Ready = true
}

// notRead stands for a condition that the control plane has not yet reported.
var notRead = metav1.Condition{Status: metav1.ConditionFalse, Reason: provv1.WaitingForControlPlaneReason, Message: "the control plane has not yet read the current specification"}

// of returns a condition of the control plane.
func of(controlPlane *rkev1.RKEControlPlane, condition string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(controlPlane.Status.Conditions, condition), notRead)
}

// reportFields names the fields without an effect.
func (r *Reconciler) reportFields(s *scope) {
	if fields := provisioning.NotActedOn(s.Cluster); len(fields) > 0 {
		s.next[provv1.FieldsNotActedOnReason] = []string{"Remove them: " + provisioning.EditCommand(s.Cluster)}
		s.conditions.True(provv1.NotActedOnCondition, provv1.FieldsNotActedOnReason, "these fields of spec have no effect: "+listed(fields, ", "))
		return
	}
	s.conditions.Drop(provv1.NotActedOnCondition)
}

// reportProvisioned reports whether the cluster's API has answered once.
func (r *Reconciler) reportProvisioned(s *scope, controlPlane *rkev1.RKEControlPlane, reconciled metav1.Condition) {
	switch {
	case controlPlane.IsEstablished():
		s.Status.ClientSecretName = secret.Name(s.Name, secret.Kubeconfig)
		s.conditions.True(provv1.ProvisionedCondition, provv1.ProvisionedCondition, "")
	case reconciled.Status == metav1.ConditionTrue:
		s.conditions.Repeat(provv1.ProvisionedCondition, notRead)
	default:
		s.conditions.Repeat(provv1.ProvisionedCondition, reconciled)
	}
}

// reportPools counts the machines of each pool, and reports whether they are up to date. It returns
// whether they are also ready.
func (r *Reconciler) reportPools(s *scope) metav1.Condition {
	s.Status.Pools = nil
	var behind, unready []string
	for _, pool := range s.rendered.Pools {
		status, rendered, current := s.count(pool)
		s.Status.Pools = append(s.Status.Pools, status)
		if !current || status.Made != rendered || status.UpToDate != rendered {
			behind = append(behind, fmt.Sprintf("pool %s: %d of %d machines are up to date, %d exist", pool.Name, status.UpToDate, rendered, status.Made))
		} else if status.Ready < rendered {
			unready = append(unready, fmt.Sprintf("pool %s: %d of %d machines are ready", pool.Name, status.Ready, rendered))
		}
	}
	upToDate := machines(behind)
	if upToDate.Status == metav1.ConditionFalse && s.isReplacing() {
		upToDate.Reason = provv1.ReplacingMachinesReason
	}
	s.conditions.Set(provv1.MachinesUpToDateCondition, upToDate.Status, upToDate.Reason, upToDate.Message)
	if s.Status.PendingReplacement = s.rendered.Pending; s.rendered.Pending != nil {
		message, next := s.pending()
		s.next[provv1.ReplacementPendingReason] = []string{next}
		s.conditions.False(provv1.MachinesUpToDateCondition, provv1.ReplacementPendingReason, message)
	}
	return machines(append(behind, unready...))
}

// pending says which machines wait for an approval, and how to approve.
func (s *scope) pending() (message, next string) {
	var pools []string
	for _, pool := range s.rendered.Pending.Pools {
		differ := "1 machine differs from its Config"
		if pool.Machines != 1 {
			differ = fmt.Sprintf("%d machines differ from their Config", pool.Machines)
		}
		pools = append(pools, fmt.Sprintf("pool %s: %s in %s", pool.Name, differ, strings.Join(pool.Changes, ", ")))
	}
	text := listed(pools, "; ")
	if s.Spec.RKEConfig.MachineReplacement == provv1.ReplaceNever {
		return text + ". Drover replaces none, because machineReplacement is Never", "Set machineReplacement to OnApproval or Automatic: " + provisioning.EditCommand(s.Cluster)
	}
	id := s.rendered.Pending.ID
	if given := s.ignoredApproval(); given != "" {
		text += ". " + given
	}
	return text, fmt.Sprintf("Approve the replacement: kubectl annotate clusters.provisioning.cattle.io %s -n %s --overwrite %s=%s",
		s.Name, s.Namespace, provv1.ApproveReplacementAnnotation, id)
}

// machines returns a condition that is True if nothing is against it.
func machines(against []string) metav1.Condition {
	if len(against) == 0 {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: provv1.MachinesUpToDateReason}
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: provv1.WaitingForMachinesReason, Message: listed(against, "; ")}
}

// maxListed is the length in bytes of the texts that a message lists. A longer condition would be cut
// before the next step, which comes last.
const maxListed = 3 << 10

// listed joins texts. If they are too long for a message, it leaves out the last ones and says how many.
func listed(texts []string, separator string) string {
	length := 0
	for i, text := range texts {
		if length += len(text) + len(separator); length > maxListed && i > 0 {
			return strings.Join(texts[:i], separator) + fmt.Sprintf("%sand %d more", separator, len(texts)-i)
		}
	}
	return strings.Join(texts, separator)
}

// count counts the machines of a pool. It returns the number of machines that its MachineDeployment
// asks for, and whether Cluster API has read the current MachineDeployment.
func (s *scope) count(pool provisioning.Pool) (status provv1.PoolStatus, rendered int32, current bool) {
	status = provv1.PoolStatus{Name: pool.Name, Wanted: pool.Wanted}
	made := s.deployments[pool.Deployment]
	if made == nil { // it was created just now, or nothing is rendered for the pool
		return status, pool.Rendered, s.generations["MachineDeployment/"+pool.Deployment] == 0 && pool.Rendered == 0
	}
	counts := made.Status
	status.Made, status.Ready = ptr.Deref(counts.Replicas, 0), ptr.Deref(counts.ReadyReplicas, 0)
	// Cluster API counts a machine as up to date until it has compared it with the new template.
	status.UpToDate = max(min(ptr.Deref(counts.UpToDateReplicas, 0), status.Made-s.older[pool.Deployment]), 0)
	rendered = pool.Rendered
	if pool.Autoscaled {
		rendered = ptr.Deref(made.Spec.Replicas, pool.Rendered)
	}
	return status, rendered, counts.ObservedGeneration >= max(s.generations["MachineDeployment/"+pool.Deployment], made.Generation)
}

// reportUpdated sets Updated: first from the parts that are not rendered as they are specified, then
// from the control plane.
func (r *Reconciler) reportUpdated(s *scope, reconciled metav1.Condition) {
	var messages []string
	for _, finding := range s.rendered.Findings {
		messages = append(messages, finding.Cause())
		first := s.rendered.Findings[0].Reason
		if !slices.Contains(s.next[first], finding.Next) && len(s.next[first]) < maxNext {
			s.next[first] = append(s.next[first], finding.Next)
		}
	}
	switch {
	case len(messages) > 0:
		s.conditions.False(provv1.UpdatedCondition, s.rendered.Findings[0].Reason, listed(messages, "; "))
	case reconciled.Status == metav1.ConditionTrue:
		s.conditions.True(provv1.UpdatedCondition, provv1.UpdatedCondition, "")
	default:
		s.conditions.Repeat(provv1.UpdatedCondition, reconciled)
	}
}

// maxNext is the largest number of next steps of a condition.
const maxNext = 5

// asWaiting returns the outcome of a step that waits.
func asWaiting(err error) (*step.Waiting, bool) { return errors.AsType[*step.Waiting](err) }
