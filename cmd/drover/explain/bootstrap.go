package explain

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/advice"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// bootstrapStep is Cluster API's own condition of the CAPI Machine, which repeats the
// RKEBootstrap's condition.
const bootstrapStep = clusterv1.MachineBootstrapConfigReadyCondition

// bootstrapFailure is why a machine's RKEBootstrap cannot be reconciled, which may be long after
// its server was made; nil when it can, or is about to be.
func bootstrapFailure(m *clusterv1.Machine) *Step {
	ref, step := m.Spec.Bootstrap.ConfigRef, capiStep(bootstrapStep, meta.FindStatusCondition(m.Status.Conditions, bootstrapStep))
	isOurs := ref.Kind == "RKEBootstrap" && ref.APIGroup == rkev1.GroupVersion.Group
	if isOurs && m.DeletionTimestamp == nil && step.State == StepFailed && step.Reason != clusterv1.NotReadyReason {
		return &step
	}
	return nil
}

// reportBootstrap reports that a machine's RKEBootstrap cannot be reconciled; whose is the
// possessive that names the machine.
func (r *Report) reportBootstrap(m *clusterv1.Machine, step *Step, whose string) {
	r.Blocker = cmp.Or(r.Blocker, step.blocker())
	name := m.Spec.Bootstrap.ConfigRef.Name
	r.Verdict = appendNew(r.Verdict, facts.Clean(whose+" RKEBootstrap "+name+" cannot be reconciled: "+step.Reason+": "+step.Message))
	r.advise(own{next: []string{"See its conditions: kubectl -n {ns} describe rkebootstraps.rke.cattle.io {bootstrapname}"}},
		advice.Words{"ns": m.Namespace, "bootstrapname": name})
}

// reportBootstraps reports up to three RKEBootstraps of the cluster's machines.
func (r *Report) reportBootstraps(s *facts.ClusterSnapshot) {
	told := 0
	for i := range s.Machines {
		m := &s.Machines[i]
		if step := bootstrapFailure(m); step != nil && told < 3 {
			told++
			r.reportBootstrap(m, step, "Machine "+m.Name+": its")
		}
	}
}
