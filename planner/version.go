package planner

import (
	"k8s.io/apimachinery/pkg/util/version"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// versionReachable refuses a version that the cluster's servers cannot go to from the one that they run: over a minor version, which Kubernetes does not
// support (kubernetes.io/releases/version-skew-policy, "kube-apiserver": not even in a cluster of one server), and back by one, for which the data of before
// has to be restored (docs.k3s.io/upgrades/roll-back).
func (p *planner) versionReachable() *fault {
	wanted := p.release.Number
	for _, m := range p.Machines {
		runs, err := version.ParseSemantic(m.KubeletVersion)
		if err != nil || !m.Roles.IsServer() || runs.Major() != wanted.Major() {
			continue
		}
		switch {
		case wanted.Minor() < runs.Minor():
			return because(rkev1.KubernetesVersionSkewReason, "spec.kubernetesVersion is %s, and %s runs %.40s: Kubernetes does not go back by a minor version, for an older one may not read "+
				"what a newer one has written", p.release.Version, m.Name, m.KubeletVersion)
		case wanted.Minor() > runs.Minor()+1:
			return because(rkev1.KubernetesVersionSkewReason, "spec.kubernetesVersion is %s, and %s runs %.40s: Kubernetes goes from one minor version to the next; go to a release of %d.%d first",
				p.release.Version, m.Name, m.KubeletVersion, runs.Major(), runs.Minor()+1)
		}
	}
	return nil
}
