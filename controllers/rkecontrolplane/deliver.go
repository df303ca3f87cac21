package rkecontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
)

// plan runs the planner, writes its plans, and reports its result. A plan written now is reported
// by the next reconcile: its plan Secret wakes the control plane.
func (r *Reconciler) plan(ctx context.Context, s *scope) error {
	// No step that calls a cluster's API holds the budget: that API may be slow on purpose.
	done, err := r.Memory.Acquire(ctx, planner.Footprint(&s.Spec))
	if err != nil {
		return err
	}
	defer done() // also after a panic, from which controller-runtime recovers
	s.result = planner.Plan(s.snapshot)
	// A failed write to a Machine must not block the plans of the others.
	failed := errors.Join(r.protect(ctx, s), r.markControlPlane(ctx, s), r.reportVersions(ctx, s))
	delivered := false
	for _, verdict := range s.result.Machines {
		if verdict.Delivery == nil {
			continue
		}
		// In the planner's order, and not further after a conflict: a later machine's turn may
		// depend on the change that was not read.
		if err := r.deliver(ctx, s, verdict); err != nil {
			return errors.Join(err, failed)
		}
		delivered = true
	}
	switch {
	case s.result.Reason == rkev1.ReconciledReason:
		s.conditions.True(rkev1.ReconciledCondition, s.result.Reason, s.result.Message)
	case delivered && meta.IsStatusConditionFalse(s.Status.Conditions, rkev1.ReconciledCondition):
		s.conditions.Repeat(rkev1.ReconciledCondition, *s.conditions.Get(rkev1.ReconciledCondition))
	default:
		s.conditions.False(rkev1.ReconciledCondition, s.result.Reason, s.result.Message)
	}
	return errors.Join(failed, r.reportMachines(ctx, s))
}

// deliver writes a plan. The agent writes the same Secret: a plan for an earlier version of the
// Secret is rejected as a conflict.
func (r *Reconciler) deliver(ctx context.Context, s *scope, verdict planner.Verdict) error {
	secret := s.member(verdict.Machine).plan
	before, d := secret, verdict.Delivery
	after := secret.DeepCopy()
	after.Data = d.Data(before.Data)
	delete(after.Annotations, rkev1.CleansAnnotation) // a restore forgot that the machine was being deleted
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, rkev1.JoinedToAnnotation, d.JoinedTo)
	if d.Retried != "" {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, rkev1.PlanRetriedAnnotation, d.Retried)
	}
	if d.JoinURL != "" {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, rkev1.JoinURLAnnotation, d.JoinURL)
	}
	if d.InitNode {
		metav1.SetMetaDataLabel(&after.ObjectMeta, rkev1.InitNodeLabel, "true")
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("writing the plan of %s: %w", verdict.Machine, err)
	}
	return nil
}

// member finds a machine by the planner's name for it.
func (s *scope) member(name string) member {
	return s.members[slices.IndexFunc(s.members, func(m member) bool { return m.Name == name })]
}

// warn keeps the condition Warnings.
func (r *Reconciler) warn(ctx context.Context, s *scope) error {
	warnings := s.result.Warnings
	s.warned = advice.ControlPlane{Namespace: s.Namespace, Rendered: s.IsRendered()}
	if len(warnings) > 0 {
		s.warned.Itself = s.Name
	}
	clusters := &clusterv1.ClusterList{}
	if err := r.Client.List(ctx, clusters, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("reading the Clusters: %w", err)
	}
	for i := range clusters.Items {
		if one := &clusters.Items[i]; one.Name != s.cluster.Name && s.IsOf(one) {
			s.warned.Other = one.Name
			warnings = append(warnings, fmt.Sprintf("the Cluster %s also names this control plane, which belongs to %s: give that Cluster its own control plane",
				one.Name, s.cluster.Name))
		}
	}
	detour := r.detour(s)
	if detour != "" {
		s.warned.Endpoint = s.snapshot.Endpoint
	}
	warnings = append(warnings, s.versionSet(), detour, s.refused, s.strayNodes())
	if warnings = slices.DeleteFunc(warnings, func(text string) bool { return text == "" }); len(warnings) == 0 {
		s.conditions.Drop(rkev1.WarningsCondition)
		return nil
	}
	s.conditions.True(rkev1.WarningsCondition, rkev1.WarningsReason, strings.Join(warnings, "; "))
	return nil
}

// versionSet describes MachineDeployments and Machines with a version and names at most three;
// empty if none has a version. The advice is about the first.
func (s *scope) versionSet() string {
	var found []string
	for _, m := range s.members {
		deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]
		what := "the Machine " + m.Name
		if deployment != "" {
			what = "the MachineDeployment " + deployment
		}
		if !isUsersVersion(m.Machine) || slices.Contains(found, what) || len(found) == 3 {
			continue
		}
		if len(found) == 0 {
			s.warned.Machine, s.warned.Deployment = m.Name, deployment
		}
		found = append(found, what)
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("a version is set for %s, where it has no effect: spec.kubernetesVersion of the RKEControlPlane sets the cluster's version. If the version in a MachineDeployment changes "+
		"or is removed, Cluster API replaces its machines", strings.Join(found, ", "))
}
