package rkecontrolplane

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/planner"
)

// count sets the counters and versions that Cluster API reads, of the control plane's Machines,
// which the control plane does not own.
func (r *Reconciler) count(s *scope) {
	var all, ready, available, upToDate int32
	for i, m := range s.members {
		if !planner.RolesOf(m.Labels).ControlPlane {
			continue
		}
		all++
		if meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineReadyCondition) {
			ready++
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineAvailableCondition) {
			available++
		}
		if s.isUpToDate(i) {
			upToDate++
		}
	}
	// a machine that matched the specification still matches it; a changed specification has no
	// verdict yet
	if len(s.result.Machines) == 0 {
		known := int32(0)
		if s.Status.ObservedGeneration == s.Generation {
			known = ptr.Deref(s.Status.UpToDateReplicas, 0)
		}
		upToDate = min(upToDate, known)
	}
	s.Status.Replicas, s.Status.ReadyReplicas, s.Status.AvailableReplicas, s.Status.UpToDateReplicas = &all, &ready, &available, &upToDate
	s.Status.Versions = s.versions()
}

// versions returns the versions that the control plane's Machines run, with the number of Machines.
func (s *scope) versions() []clusterv1.StatusVersion {
	replicas := map[string]int32{}
	for _, m := range s.members {
		if running := kubeletVersion(m.Machine); running != "" && planner.RolesOf(m.Labels).ControlPlane {
			replicas[running]++
		}
	}
	var versions []clusterv1.StatusVersion
	oldestFirst := func(a, b string) int { // of two that differ in their build alone neither is older
		order, _ := version.MustParseSemantic(a).Compare(b) // kubeletVersion gives no others
		return cmp.Or(order, strings.Compare(a, b))
	}
	for _, v := range slices.SortedFunc(maps.Keys(replicas), oldestFirst) {
		versions = append(versions, clusterv1.StatusVersion{Version: v, Replicas: replicas[v]})
	}
	return versions
}

// isUpToDate reports whether a machine matches the specification. Without a result of the planner,
// it reports whether the machine matches its plan.
func (s *scope) isUpToDate(i int) bool {
	if len(s.result.Machines) == 0 {
		progress, _ := planner.Progress(s.snapshot.Machines[i].Secret)
		return progress == rkev1.UpToDateReason
	}
	return slices.ContainsFunc(s.result.Machines, func(v planner.Verdict) bool { return v.Machine == s.members[i].Name && v.Done() })
}

// quiet are reasons without an event: every cluster and every machine passes them.
var quiet = []string{clusterv1.PausedReason, rkev1.WaitingForOwnerReason, rkev1.WaitingForInfrastructureReason, rkev1.WaitingForTokensReason, rkev1.WaitingForAuthoritiesReason,
	rkev1.WaitingForMachinesReason, rkev1.WaitingForPlanSecretReason, rkev1.WaitingForServerReason, rkev1.WaitingForControlPlaneReason, rkev1.WaitingForTurnReason,
	rkev1.WaitingForAgentReason, rkev1.ApplyingPlanReason, rkev1.WaitingForProbesReason, rkev1.PlanDeliveredReason, rkev1.MachineDeletingReason, rkev1.DeletingReason}

// emit writes an event for each changed condition of a control plane.
func (r *Reconciler) emit(obj *rkev1.RKEControlPlane, before []metav1.Condition) {
	of, passed := []string{rkev1.ReconciledCondition, rkev1.WarningsCondition}, quiet
	if obj.Status.Initialized { // before, no cluster's API answers
		of = append(of, rkev1.AvailableCondition)
	} else { // a worker may be made before the server
		passed = append(slices.Clone(quiet), rkev1.NoEtcdMachineReason, rkev1.NoControlPlaneMachineReason)
	}
	step.Emit(r.Recorder, obj, step.Transitions{Before: before, After: obj.Status.Conditions, Quiet: passed, Of: of,
		Notes: map[string]string{rkev1.ReconciledReason: "All machines match the specification", rkev1.APIAnswersReason: "The cluster's API responds"}})
}
