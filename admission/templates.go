package admission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/drover-project/drover/crdgen"
)

// PolicyName is the name of the policy that keeps templates as they are, and of its binding.
const PolicyName = "drover-templates-are-immutable"

const immutableMessage = "the spec of a template cannot be changed, for machines made before and after would differ without a trace: " +
	"create a new template under another name and point infrastructureRef.name, or bootstrap.configRef.name, in spec.template.spec of the MachineDeployment at it, which then replaces its machines"

// templatesAreImmutable lets ClusterClass's dry-runs through, by which it computes changes.
func templatesAreImmutable() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: updatesOf(
			admissionregistrationv1.Rule{APIGroups: []string{crdgen.MachineGroup}, Resources: []string{"*"}},
			admissionregistrationv1.Rule{APIGroups: []string{"rke.cattle.io"}, Resources: []string{"rkeclustertemplates", "rkebootstraptemplates"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-template", Expression: "request.kind.kind.endsWith('Template')"},
			{Name: "is-no-topology-dry-run", Expression: "!(has(request.dryRun) && request.dryRun && has(object.metadata.annotations) && " +
				"'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)"},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "object.spec == oldObject.spec", Message: immutableMessage}},
	}
}
