package rkecontrolplane

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/planner"
)

// count fills the counters and versions that Cluster API reads: of the control plane's Machines, which it does not own.
func (r *Reconciler) count(s *scope) {
	var all, ready, available, upToDate int32
	versions := map[string]int32{}
	for _, m := range s.members {
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
		if slices.ContainsFunc(s.result.Machines, func(v planner.Verdict) bool { return v.Machine == m.Name && v.Done() }) {
			upToDate++
		}
		if running := kubeletVersion(m.Machine); running != "" {
			versions[running]++
		}
	}
	s.Status.Replicas, s.Status.ReadyReplicas, s.Status.AvailableReplicas, s.Status.UpToDateReplicas = &all, &ready, &available, &upToDate
	s.Status.Versions = nil
	for _, v := range slices.SortedFunc(maps.Keys(versions), older) {
		s.Status.Versions = append(s.Status.Versions, clusterv1.StatusVersion{Version: v, Replicas: versions[v]})
	}
}

// older orders versions, and what is none before them.
func older(a, b string) int {
	left, leftErr := version.ParseSemantic(a)
	right, rightErr := version.ParseSemantic(b)
	if leftErr != nil || rightErr != nil {
		return len(a) - len(b)
	}
	if order, err := left.Compare(right.String()); err == nil && order != 0 {
		return order
	}
	return 0
}
