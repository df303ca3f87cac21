package admission

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Policies are what the API server checks by itself, whether we run or not, each with its binding.
func Policies(owner *metav1.OwnerReference) []client.Object {
	return slices.Concat(policy(owner, PolicyName, templatesAreImmutable()), policy(owner, StatePolicyName, stateKeepsItsClaim()),
		policy(owner, PlanPolicyName, agentsWriteTheirKeys()),
		policy(owner, OptionsPolicyName, machinesKeepTheirOptions()), policy(owner, VersionPolicyName, versionsAreTheControlPlanes()))
}

func policy(owner *metav1.OwnerReference, name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) []client.Object {
	spec.FailurePolicy = new(admissionregistrationv1.Fail)
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metaOf(name, owner), Spec: spec},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metaOf(name, owner), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}},
	}
}

// updatesOf matches the updates of resources of the given groups.
func updatesOf(rules ...admissionregistrationv1.Rule) *admissionregistrationv1.MatchResources {
	return requestsFor([]admissionregistrationv1.OperationType{admissionregistrationv1.Update}, rules...)
}

func requestsFor(operations []admissionregistrationv1.OperationType, rules ...admissionregistrationv1.Rule) *admissionregistrationv1.MatchResources {
	match := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionregistrationv1.Equivalent)}
	for _, rule := range rules {
		rule.APIVersions, rule.Scope = []string{"*"}, new(admissionregistrationv1.AllScopes)
		match.ResourceRules = append(match.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: operations, Rule: rule}})
	}
	return match
}
