package admission

import (
	"encoding/base64"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/drover-project/drover/api/plan"
)

// agentsWriteTheirKeys enforces the table of api/plan, because RBAC has no rules for parts of a
// Secret: an agent reports the results of a plan, and changes neither the plan nor the Secret's
// owner. It does not check that a plan's revision never decreases: a policy cannot read numbers in
// a Secret.
func agentsWriteTheirKeys() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	const foreign = "an agent may write only the results of its plan; only the manager may write the other keys of the plan Secret"
	keys := celList(plan.KeysOf(plan.Agent))
	same := func(one, other string) admissionregistrationv1.Validation {
		return admissionregistrationv1.Validation{Message: foreign,
			Expression: fmt.Sprintf("%[1]s.?data.orValue({}).all(k, k in %[3]s || %[1]s.data[k] == %[2]s.?data[?k].orValue(null))", one, other, keys)}
	}
	// The transitions of a plan's state that an agent may make, in the encoding of a Secret.
	var transitions []string
	encode := func(s plan.State) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, from := range plan.States() {
		for _, to := range plan.Transitions(from) {
			transitions = append(transitions, encode(from)+">"+encode(to))
		}
	}
	state := fmt.Sprintf(".?data[?%s].orValue('')", celString(plan.KeyState))
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(updates, admissionregistrationv1.Rule{APIGroups: []string{""}, Resources: []string{"secrets"}}),
		// In this order: for all other Secrets only the type is checked.
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-plan", Expression: "has(oldObject.type) && oldObject.type == " + celString(plan.SecretType)},
			{Name: "by-its-agent", Expression: "request.userInfo.username == 'system:serviceaccount:' + oldObject.metadata.namespace + ':' + oldObject.metadata.name"},
		},
		Validations: []admissionregistrationv1.Validation{
			same("object", "oldObject"), same("oldObject", "object"),
			{Expression: fmt.Sprintf("object%[1]s == oldObject%[1]s || (oldObject%[1]s + '>' + object%[1]s) in %[2]s", state, celList(transitions)),
				Message: "an agent may start a plan that is pending or has succeeded, and may end a plan that is in progress"},
		},
	}
	for _, field := range []string{"metadata.?annotations", "metadata.?labels", "metadata.?finalizers", "metadata.?ownerReferences", "?immutable"} {
		spec.Validations = append(spec.Validations, admissionregistrationv1.Validation{Expression: fmt.Sprintf("object.%[1]s == oldObject.%[1]s", field), Message: foreign})
	}
	return spec
}

// celList returns a list of texts for CEL.
func celList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = celString(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
