package explain

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// leaving are the Machines that are being deleted.
func leaving(machines []clusterv1.Machine) []clusterv1.Machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m clusterv1.Machine) bool { return m.DeletionTimestamp == nil })
}

// reportLeaving reports up to three Machines that are being deleted, with Cluster API's own
// messages, and the next steps for the first one whose node is being drained. poolsGo is true if
// their pools are being deleted too.
func (r *Report) reportLeaving(machines []clusterv1.Machine, controlPlane *facts.Object, poolsGo bool) {
	for i := range machines[:min(3, len(machines))] {
		m := &machines[i]
		if c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition); c != nil && c.Status == metav1.ConditionTrue {
			r.Verdict = appendNew(r.Verdict, facts.Clean(strings.Join(nonEmpty("Machine "+m.Name, c.Reason, capiStep(c.Type, c).Message), ": ")))
		}
		r.askAbout(m, "See why it waits")
	}
	if at := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return draining(&m) }); at >= 0 {
		r.reportDrain(&machines[at], controlPlane, poolsGo)
	}
	if at := slices.IndexFunc(machines, func(m clusterv1.Machine) bool { return len(hooks(&m)) > 0 }); at >= 0 {
		r.reportHooks(&machines[at])
	}
}

// hooks are the annotations of a Machine for which Cluster API does not go on with its deletion.
func hooks(m *clusterv1.Machine) []string {
	c := ptr.Deref(meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition), metav1.Condition{})
	prefix := map[string]string{clusterv1.MachineDeletingWaitingForPreDrainHookReason: clusterv1.PreDrainDeleteHookAnnotationPrefix,
		clusterv1.MachineDeletingWaitingForPreTerminateHookReason: clusterv1.PreTerminateDeleteHookAnnotationPrefix}[c.Reason]
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.Annotations)), func(name string) bool { return prefix == "" || !strings.HasPrefix(name, prefix) })
}

// reportHooks explains, for up to three hooks, how to remove a hook whose owner does not remove it.
func (r *Report) reportHooks(m *clusterv1.Machine) {
	all := hooks(m)
	for _, hook := range all[:min(3, len(all))] {
		r.advise(own{next: []string{"A hook is removed by its owner. As a last resort, if its owner no longer exists: kubectl annotate machines.cluster.x-k8s.io {machine} -n {ns} {hook}-"}},
			advice.Words{"machine": m.Name, "ns": m.Namespace, "hook": hook})
	}
}

func draining(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineDeletingCondition)
	return c != nil && c.Reason == clusterv1.MachineDeletingDrainingNodeReason
}

// reportDrain adds the next steps for a drain that does not end, and the cause if the cluster's API
// does not answer, which Cluster API does not report. A Machine of a pool has the timeouts of the
// pool. Cluster API copies them into the Machine repeatedly and without replacing it, unless the
// pool is being deleted.
func (r *Report) reportDrain(m *clusterv1.Machine, controlPlane *facts.Object, poolGoes bool) {
	words := advice.Words{"machine": m.Name, "ns": m.Namespace, "cluster": m.Spec.ClusterName}
	undrained := "To remove the server without draining its pods: kubectl annotate machines.cluster.x-k8s.io {machine} -n {ns} " +
		clusterv1.ExcludeNodeDrainingAnnotation + "="
	if controlPlane != nil {
		step := newStep(rkev1.AvailableCondition, meta.FindStatusCondition(controlPlane.Conditions, rkev1.AvailableCondition))
		if step.Reason == rkev1.APINotReachedReason {
			r.Verdict = appendNew(r.Verdict, "Its Node cannot be drained while the manager cannot reach the cluster's API: "+step.Message)
			r.Next = append(r.Next, step.next...)
			r.advise(own{next: []string{undrained}}, words)
			return
		}
	}
	pool, resource := m.Labels[clusterv1.MachineDeploymentNameLabel], "machinedeployments"
	if pool == "" {
		pool, resource = m.Labels[clusterv1.MachineSetNameLabel], "machinesets"
	}
	limit := `kubectl patch machines.cluster.x-k8s.io {machine} -n {ns} --type=merge -p '{"spec":{"deletion":{"nodeDrainTimeoutSeconds":300}}}'`
	if pool != "" && !poolGoes {
		words["pool"] = pool
		limit = "kubectl patch " + resource + `.cluster.x-k8s.io {pool} -n {ns} --type=merge -p '{"spec":{"template":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":300}}}}}'`
	}
	r.advise(own{next: []string{
		"Check what prevents the eviction of pods, such as a PodDisruptionBudget: drover kubeconfig {cluster} -n {ns} --file {cluster}.yaml && kubectl --kubeconfig {cluster}.yaml get poddisruptionbudgets -A",
		"To limit the drain to five minutes: " + limit,
		undrained,
	}}, words)
}
