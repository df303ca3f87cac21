package rkecontrolplane

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
)

// reportVersions writes the version of each server into its Machine. For Cluster API a Machine
// whose kubelet has another version is not up to date, and its MachineDeployment would never finish
// its rollout. The write causes no rollout: rollouts depend on the MachineDeployment, which has no
// version.
func (r *Reconciler) reportVersions(ctx context.Context, s *scope) error {
	var errs []error
	for _, m := range s.members {
		running := kubeletVersion(m.Machine)
		if running == "" || m.Spec.Version == running || isUsersVersion(m.Machine) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		errs = append(errs, r.patchMachine(ctx, m, "writing the version of",
			fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}},"spec":{"version":%q}}`, m.UID, rkev1.RunningVersionAnnotation, running, running)))
	}
	return errors.Join(errs...)
}

// markControlPlane labels the Machines of the control plane's servers for Cluster API: if no
// Machine of a cluster has the label, Cluster API neither drains nor deletes the Nodes of deleted
// Machines. It does not label a Machine without a MachineSet: when its cluster is deleted, Cluster
// API leaves labelled Machines to their control plane.
func (r *Reconciler) markControlPlane(ctx context.Context, s *scope) error {
	var errs []error
	for _, m := range s.members {
		owner := metav1.GetControllerOf(m.Machine)
		_, has := m.Labels[clusterv1.MachineControlPlaneLabel]
		if has || owner == nil || owner.Kind != "MachineSet" || !planner.RolesOf(m.Labels).ControlPlane || !m.DeletionTimestamp.IsZero() {
			continue
		}
		errs = append(errs, r.patchMachine(ctx, m, "labelling",
			fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:""}}}`, m.UID, clusterv1.MachineControlPlaneLabel)))
	}
	return errors.Join(errs...)
}

// kubeletVersion returns the version that a Machine's kubelet reports. A root user on the server
// can forge it, so a value that Cluster API would not accept as a version is ignored.
func kubeletVersion(machine *clusterv1.Machine) string {
	if machine.Status.NodeInfo == nil {
		return ""
	}
	text := machine.Status.NodeInfo.KubeletVersion
	parsed, err := version.ParseSemantic(text)
	if err != nil || len(text) > maxVersion || "v"+parsed.String() != text {
		return ""
	}
	return text
}

// maxVersion is the maximum length of a version in a Machine, and in the status of a control plane.
const maxVersion = 256

// isUsersVersion reports whether a Machine has a version that we did not write.
func isUsersVersion(machine *clusterv1.Machine) bool {
	return machine.Spec.Version != "" && machine.Spec.Version != machine.Annotations[rkev1.RunningVersionAnnotation]
}
