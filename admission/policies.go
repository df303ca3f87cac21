package admission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/crdgen"
)

// PolicyName is the name of the policy that keeps templates as they are, and of its binding.
const PolicyName = "drover-templates-are-immutable"

const immutableMessage = "the spec of a template cannot be changed, for machines made before and after would differ without a trace: " +
	"create a new template under another name and point spec.template.spec.infrastructureRef.name of the MachineDeployment at it, which then replaces its machines"

// Policies are what the API server checks by itself, whether we run or not. ClusterClass computes changes by dry-run, which
// must go through.
func Policies(owner *metav1.OwnerReference) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	meta := metav1.ObjectMeta{Name: PolicyName, Labels: map[string]string{"app.kubernetes.io/part-of": "drover"}}
	if owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	templates := func(group, resource string) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource},
				Scope: new(admissionregistrationv1.AllScopes)},
		}}
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionregistrationv1.Equivalent),
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{
				templates(crdgen.MachineGroup, "*"), templates("rke.cattle.io", "rkeclustertemplates")},
		},
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-template", Expression: "request.kind.kind.endsWith('Template')"},
			{Name: "is-no-topology-dry-run", Expression: "!(has(request.dryRun) && request.dryRun && has(object.metadata.annotations) && " +
				"'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)"},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "object.spec == oldObject.spec", Message: immutableMessage}},
	}}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: *meta.DeepCopy(), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName:        PolicyName,
		ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}
	return policy, binding
}
