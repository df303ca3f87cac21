package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// stateKeepsItsClaim prevents a pod from changing the manager's parts of its state Secret, because
// RBAC has no rules for parts of a Secret and the pod runs an unreviewed driver. The driver must
// not change the claimed attempt, its driver, or the owner of the Secret. It must not add a
// credential either, because the manager still reads credentials from states of earlier managers. A
// Secret without a noted account, such as a probe's result, which a driver cannot reach, is not
// restricted.
func stateKeepsItsClaim() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(updates, admissionregistrationv1.Rule{APIGroups: []string{""}, Resources: []string{"secrets"}}),
		// In this order: for all other Secrets only the type is checked.
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-state", Expression: "has(oldObject.type) && oldObject.type == " + celString(rkev1.MachineStateSecretType)},
			{Name: "by-its-pod", Expression: "request.userInfo.username == 'system:serviceaccount:' + oldObject.metadata.namespace + ':' + " +
				fmt.Sprintf("oldObject.metadata.?annotations[?%s].orValue('')", celString(rkev1.PodAccountAnnotation))},
		},
	}
	for _, field := range []string{"metadata.?annotations", "metadata.?labels", "metadata.?finalizers", "metadata.?ownerReferences", "?immutable",
		fmt.Sprintf("?data[?%s]", celString(state.CredentialKey))} {
		spec.Validations = append(spec.Validations, admissionregistrationv1.Validation{
			Expression: fmt.Sprintf("object.%[1]s == oldObject.%[1]s", field),
			Message:    "a machine's pod may write only its results; only the manager may write the metadata and the credential of the state Secret",
		})
	}
	return spec
}
