package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
)

// Before Cluster API deletes a Machine's server, it waits for the pre-drain hooks, drains the Node,
// waits for its volumes, and waits for the pre-terminate hooks. Deleting only the infra machine
// bypasses these steps. The controller therefore also deletes the CAPI Machine, and keeps the
// server until Cluster API asks for its deletion. Cluster API chooses the steps: version 1.14
// drains no Node whose infra machine was deleted first.

// askMachine deletes the CAPI Machine of a machine that was deleted alone, and waits until Cluster
// API would remove the server. It does not wait if no answer can come: without the Machine or its
// Cluster, or in a namespace that is being deleted.
func (r *Reconciler) askMachine(ctx context.Context, s *scope) error {
	if s.machineWaits() == "" {
		return nil
	}
	if going, err := r.isTerminating(ctx, s.GetNamespace()); going || err != nil {
		return err
	}
	// The index wakes only machines that wait; the second read sees a change from before the note.
	r.watchIndex.note(s.request, watchKey{kind: "Machine", name: client.ObjectKeyFromObject(s.machine)})
	s.machine = nil
	if err := r.findOwners(ctx, s); err != nil {
		return err
	}
	waits := s.machineWaits()
	if waits == "" {
		return nil
	}
	if s.machine.DeletionTimestamp.IsZero() {
		err := r.Client.Delete(ctx, s.machine, client.Preconditions{UID: &s.machine.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the CAPI Machine %s: %w", s.machine.Name, err)
		}
	}
	if s.removalBegun() || s.Abandoned() {
		return nil
	}
	// That its namespace is being deleted wakes no machine that is so already.
	return step.Wait(rkev1.WaitingForMachineDeletionReason, waits+"; its server is removed afterwards", orphanCheck)
}

// machineWaits returns why the CAPI Machine's deletion must continue before the removal of the
// server; empty if nothing blocks the removal.
func (s *scope) machineWaits() string {
	m := s.machine
	if m == nil || s.cluster == nil || m.Spec.InfrastructureRef.Kind != s.GetKind() || m.Spec.InfrastructureRef.Name != s.GetName() {
		return ""
	}
	noted := s.conditions.Get(rkev1.DeleteJobCondition)
	switch hooks := hooksOf(m); {
	case m.DeletionTimestamp.IsZero():
		return fmt.Sprintf("this machine was deleted without its CAPI Machine %s, which is now deleted with it", m.Name)
	case s.removalBegun(), s.Abandoned(), serverIsDue(m):
		return ""
	case hooks != "":
		return fmt.Sprintf("the CAPI Machine %s is being deleted and waits for its hooks: %s", m.Name, hooks)
	case noted != nil && noted.Reason == rkev1.WaitingForMachineDeletionReason:
		return fmt.Sprintf("the CAPI Machine %s is being deleted, and Cluster API has not started to delete its server yet", m.Name)
	}
	return "" // the ordinary way: no hook is left when Cluster API deletes the machine
}

// hooksOf names the hooks that a Machine's deletion waits for.
func hooksOf(m *clusterv1.Machine) string {
	var hooks []string
	for name := range m.Annotations {
		if strings.HasPrefix(name, clusterv1.PreDrainDeleteHookAnnotationPrefix) || strings.HasPrefix(name, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
			hooks = append(hooks, name)
		}
	}
	slices.Sort(hooks)
	return strings.Join(hooks, ", ")
}

// serverIsDue reports whether Cluster API waits only for the end of the server. The condition has
// priority over the hooks: Cluster API does not run the pre-drain hooks of a Machine without a
// Node, or of a Cluster that is being deleted, and leaves their annotations in place.
func serverIsDue(m *clusterv1.Machine) bool {
	deleting := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	return deleting != nil && deleting.Reason == clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
}

// ourBootstrap is the kind of Drover's own bootstrap provider.
var ourBootstrap = rkev1.GroupVersion.WithKind("RKEBootstrap").GroupKind()

// cleanByPlan asks the machine's agent to clean a host that the remove Job could not clean, and
// reports whether the host is clean. The request is an annotation that controllers/rkecontrolplane
// reads; the answer is in the plan Secret. It sends no request if the CAPI Machine stays, or if the
// namespace is being deleted: the plan Secret and the agent's access were deleted with it, and
// cannot be created again.
func (r *Reconciler) cleanByPlan(ctx context.Context, s *scope, last attempt.Attempt) (bool, error) {
	if last.State != attempt.Failed || last.Verdict.Reason != rkev1.HostNotCleanedReason || s.machine == nil || s.machine.DeletionTimestamp.IsZero() {
		return false, nil
	}
	ref := s.machine.Spec.Bootstrap.ConfigRef
	if ref.GroupKind() != ourBootstrap {
		return false, nil
	}
	if s.inFallback() {
		s.cleaning = ". Its agent cannot clean it by plan either, because its plan Secret is deleted with the namespace, and no new one can be created there"
		return false, nil
	}
	uid := cmp.Or(s.state.TaggedUID, string(s.GetUID())) // as in the host's claim
	if annotations.AddAnnotations(s, map[string]string{rkev1.CleanByPlanAnnotation: uid}) {
		if err := r.patch(ctx, s); err != nil {
			return false, fmt.Errorf("requesting that the agent cleans the host: %w", err)
		}
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: plan.SecretName(ref.Name)}
	r.watchIndex.note(s.request, watchKey{kind: "Secret", name: key})
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("reading the plan Secret %s: %w", key.Name, err)
	case apierrors.IsNotFound(err):
		s.cleaning = fmt.Sprintf(". Its agent cannot clean it by plan either, because its plan Secret %s does not exist", key.Name)
		return false, nil
	case secret.Type != plan.SecretType:
		return false, nil
	}
	s.hasPlan = true
	if secret.Annotations[rkev1.CleansAnnotation] != uid {
		s.cleaning = ". Its agent gets a plan that cleans the host, if the agent has ever started a plan"
		return false, nil
	}
	if plan.State(secret.Data[plan.KeyState]) == plan.StateSucceeded && string(secret.Data[plan.KeyAppliedChecksum]) == plan.Checksum(secret.Data[plan.KeyPlan]) {
		return true, nil
	}
	s.cleaning = describeCleaning(secret.Data, s.GetName())
	return false, nil
}

// describeCleaning describes the progress of an agent that got a plan to clean its host. The text
// changes only with the plan's state; other commands show the time of the agent's last call.
func describeCleaning(data map[string][]byte, machine string) string {
	prefix := ". Its agent got a plan to clean the host, "
	status, err := plan.DecodeAgentStatus(data[plan.KeyAgentStatus])
	switch {
	case err == nil && status.Message != "" && status.Checksum == plan.Checksum(data[plan.KeyPlan]):
		why := plan.Head(strings.Join(strings.Fields(strings.TrimPrefix(status.Step+": "+status.Message, ": ")), " "), 500)
		return prefix + fmt.Sprintf("which failed too: %s (see drover logs %s --agent)", why, machine)
	case plan.State(data[plan.KeyState]) == plan.StateInProgress:
		return prefix + "and is applying it"
	}
	return prefix + fmt.Sprintf("and has not started it (drover why %s shows when the agent last called)", machine)
}
