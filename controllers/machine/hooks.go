package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// Cluster API asks before it deletes a Machine's server: pre-drain hooks, then it drains the Node and waits for its volumes, then pre-terminate
// hooks. Who deletes the infra machine alone goes past all of that. So its Machine is deleted, too, and the server stays until Cluster API has
// come to it. Which of the steps are taken is Cluster API's to say: 1.14 drains no Node whose infra machine was deleted first.

// askMachine has the CAPI Machine deleted of a machine that was deleted alone, and waits until Cluster API would remove the server. It does
// not wait where nobody would say so: without the Machine or its Cluster, or in a namespace that is being deleted.
func (r *Reconciler) askMachine(ctx context.Context, s *scope) error {
	if s.machineWaits() == "" {
		return nil
	}
	if going, err := r.isTerminating(ctx, s.GetNamespace()); going || err != nil {
		return err
	}
	// Nobody is woken by this who does not wait; what changed before it was noted is read again.
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
	return step.Wait(rkev1.WaitingForMachineDeletionReason, waits+"; its server is removed after that", orphanCheck)
}

// machineWaits says what of the CAPI Machine's deletion goes before the removal of the server; empty when nothing does.
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
		return fmt.Sprintf("the CAPI Machine %s is being deleted, and its hooks are waited for: %s", m.Name, hooks)
	case noted != nil && noted.Reason == rkev1.WaitingForMachineDeletionReason:
		return fmt.Sprintf("the CAPI Machine %s is being deleted, and Cluster API has not come to its server yet", m.Name)
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

// serverIsDue reports whether Cluster API waits for nothing but the end of the server. Its word goes before that of the hooks: it does not ask
// the pre-drain hooks of a Machine without a Node, or of a Cluster that is being deleted, and leaves them where they are.
func serverIsDue(m *clusterv1.Machine) bool {
	deleting := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	return deleting != nil && deleting.Reason == clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
}
