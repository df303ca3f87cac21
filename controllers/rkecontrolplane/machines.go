package rkecontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
)

const (
	// ours marks an annotation that the manager may remove.
	ours = "drover"
	// patience is how long a changing machine is protected from a replacement.
	patience = 30 * time.Minute
)

// protect prevents Cluster API from replacing a machine that is being changed, and the one server
// that has the cluster's data. It also runs if the control plane cannot judge
// its machines, because health checks continue. It does not change a user's own annotation.
func (r *Reconciler) protect(ctx context.Context, s *scope) error {
	var errs []error
	for i, m := range s.members {
		has, exists := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
		wanted := r.isIrreplaceable(s, i) || r.isChanging(s, i)
		if exists && has != ours || exists == wanted || !m.DeletionTimestamp.IsZero() {
			continue
		}
		value := `"` + ours + `"`
		if !wanted {
			value = "null"
		}
		errs = append(errs, r.patchMachine(ctx, m, "annotating",
			fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, m.UID, clusterv1.MachineSkipRemediationAnnotation, value)))
	}
	return errors.Join(errs...)
}

// patchMachine merges a patch into a Machine; a Machine that is gone is not an error.
func (r *Reconciler) patchMachine(ctx context.Context, m member, doing string, patch []byte) error {
	if err := r.Client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s Machine %s: %w", doing, m.Name, err)
	}
	return nil
}

// isIrreplaceable reports whether the cluster would lose its data, or its etcd quorum, with the
// machine. If the state of the cluster is lost, the cluster counts as created.
func (r *Reconciler) isIrreplaceable(s *scope, i int) bool {
	hasData := func(m planner.Machine) bool { return m.Roles.Etcd && m.Secret != nil && m.Secret.JoinedTo != "" }
	members := 0
	for _, one := range s.snapshot.Machines {
		if hasData(one) {
			members++
		}
	}
	made := s.snapshot.Bootstrapped || s.snapshot.Tokens.Server == ""
	return made && hasData(s.snapshot.Machines[i]) && members < 3
}

// isChanging reports whether a machine gets a plan, including its first one, or has worked on its
// plan for less than patience. The condition PlanApplied records the start: it depends on the agent
// alone, so an error of the control plane does not change the time. A MachineHealthCheck judges a
// machine that has applied its plan. The kubelet of a new server registers its Node later, and has
// as much time as the probes.
func (r *Reconciler) isChanging(s *scope, i int) bool {
	m := s.members[i]
	if slices.ContainsFunc(s.result.Machines, func(v planner.Verdict) bool { return v.Machine == m.Name && v.Delivery != nil }) {
		return true
	}
	left, isApplied := patience, false
	switch progress, _ := planner.Progress(s.snapshot.Machines[i].Secret); progress {
	case "", rkev1.ProbesFailingReason, rkev1.AgentSilentReason:
		return false
	case rkev1.UpToDateReason, rkev1.WaitingForProbesReason:
		if m.Status.NodeRef.IsDefined() {
			return false
		}
		left, isApplied = planner.ProbesPatience, true
	}
	applied := meta.FindStatusCondition(m.Status.Conditions, rkev1.PlanAppliedCondition)
	if applied != nil && isApplied == (applied.Status == metav1.ConditionTrue) {
		left = applied.LastTransitionTime.Add(left).Sub(r.Clock.Now())
	}
	s.comeAgain(left)
	return left > 0
}

// reportMachines writes on the Machines why they wait. Cluster API does not change conditions of
// other controllers.
func (r *Reconciler) reportMachines(ctx context.Context, s *scope) error {
	verdicts := s.result.Machines
	if len(verdicts) == 0 {
		verdicts = s.unjudged()
	}
	for _, verdict := range verdicts {
		if verdict.Delivery != nil {
			continue
		}
		machine := s.member(verdict.Machine).Machine
		after := machine.DeepCopy().Status.Conditions
		if !r.setVerdict(&after, s, verdict) {
			continue
		}
		if err := r.writeConditions(ctx, machine, after); err != nil {
			return err
		}
		// Its plan was applied, failed or is retried.
		step.Emit(r.Recorder, machine, step.Transitions{Before: machine.Status.Conditions, After: after, Quiet: append([]string{rkev1.UpToDateReason}, quiet...),
			Of:    []string{rkev1.ReconciledCondition, rkev1.PlanAppliedCondition},
			Notes: map[string]string{rkev1.PlanAppliedReason: "Its agent applied its plan", rkev1.PlanFailedReason: "Its agent gave up its plan"}})
	}
	return nil
}

// unjudged returns verdicts about the machines of a control plane without a result of the planner:
// it is unknown whether they match the specification, and the reason is the reason of the control
// plane.
func (s *scope) unjudged() []planner.Verdict {
	why := s.conditions.Get(rkev1.ReconciledCondition)
	text, _ := advice.Split(why.Message)
	var verdicts []planner.Verdict
	for i, m := range s.members {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		progress, message := planner.Progress(s.snapshot.Machines[i].Secret)
		verdicts = append(verdicts, planner.Verdict{Machine: m.Name, Reason: why.Reason, Message: "the control plane " + s.Name + ": " + text, Progress: progress, ProgressMessage: message})
	}
	return verdicts
}

// setVerdict sets a verdict's conditions, and reports whether one has changed.
func (r *Reconciler) setVerdict(list *[]metav1.Condition, s *scope, verdict planner.Verdict) bool {
	changed := false
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		old := ptr.Deref(meta.FindStatusCondition(*list, kind), metav1.Condition{})
		// No observedGeneration: the conditions are about the plan and not the Machine's spec.
		// Cluster API raises the spec's generation without another plan, and kubectl wait would
		// wait for that generation.
		scratch := step.NewConditions(list, 0, r.Clock.Now())
		scratch.Advise = func(c metav1.Condition) []string { return s.about(verdict).On(c.Reason) }
		scratch.Set(kind, status, reason, message)
		changed = changed || old != *meta.FindStatusCondition(*list, kind)
	}
	reconciled := metav1.ConditionFalse
	switch {
	case verdict.Done():
		reconciled = metav1.ConditionTrue
	case len(s.result.Machines) == 0:
		reconciled = metav1.ConditionUnknown
	}
	set(rkev1.ReconciledCondition, reconciled, verdict.Reason, verdict.Message)
	switch verdict.Progress {
	case "": // it has no plan
	case rkev1.UpToDateReason, rkev1.WaitingForProbesReason, rkev1.ProbesFailingReason:
		set(rkev1.PlanAppliedCondition, metav1.ConditionTrue, rkev1.PlanAppliedReason, "")
	case rkev1.PlanFailedReason:
		set(rkev1.PlanAppliedCondition, metav1.ConditionFalse, verdict.Progress, verdict.ProgressMessage)
	default:
		set(rkev1.PlanAppliedCondition, metav1.ConditionUnknown, verdict.Progress, verdict.ProgressMessage)
	}
	return changed
}

// advise returns the advice for a condition of the control plane. If the reason comes from a
// machine, the advice is about the first such machine.
func (s *scope) advise(c metav1.Condition) []string {
	if c.Type == rkev1.WarningsCondition {
		return s.warned.On(c.Reason)
	}
	for _, verdict := range s.result.Machines {
		if verdict.Reason == c.Reason {
			return s.about(verdict).On(c.Reason)
		}
	}
	cluster := s.Spec.ClusterName
	if s.cluster != nil {
		cluster = s.cluster.Name
	}
	a := advice.ControlPlane{Namespace: s.Namespace, Name: s.Name, Cluster: cluster, Rendered: s.IsRendered()}
	if at := slices.IndexFunc(s.snapshot.Machines, func(m planner.Machine) bool { return m.Roles.IsServer() && m.KubeletVersion != "" }); at >= 0 {
		a.Running = s.snapshot.Machines[at].KubeletVersion
	}
	if s.snapshot.OlderState != "" {
		a.Kind, a.Object = "secret", s.snapshot.OlderState
	}
	return a.On(c.Reason)
}

// about returns the names for advice about a machine.
func (s *scope) about(verdict planner.Verdict) advice.ControlPlane {
	m := s.member(verdict.Machine)
	a := advice.ControlPlane{Namespace: s.Namespace, Name: s.Name, Cluster: s.snapshot.Name, Machine: m.Name, Deployment: m.Labels[clusterv1.MachineDeploymentNameLabel], Rendered: s.IsRendered(),
		Kind: strings.ToLower(verdict.Object.Kind), Object: verdict.Object.Name, Field: verdict.Field}
	if ref := m.Spec.InfrastructureRef; ref.APIGroup == rkev1.MachineGroupVersion.Group {
		a.Infra = strings.ToLower(ref.Kind) + "s." + ref.APIGroup + "/" + ref.Name
	}
	return a
}

// writeConditions applies our own conditions of a Machine.
func (r *Reconciler) writeConditions(ctx context.Context, machine *clusterv1.Machine, conditions []metav1.Condition) error {
	var own []any
	for _, kind := range []string{rkev1.ReconciledCondition, rkev1.PlanAppliedCondition} {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition == nil {
			continue
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
		if err != nil {
			return fmt.Errorf("encoding a condition: %w", err)
		}
		own = append(own, fields)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": own}}}
	patch.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	patch.SetNamespace(machine.Namespace)
	patch.SetName(machine.Name)
	patch.SetUID(machine.UID)
	err := r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(patch), client.FieldOwner(fieldOwner), client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing conditions of Machine %s: %w", machine.Name, err)
	}
	return nil
}
