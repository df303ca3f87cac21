package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// stateKeepsItsClaim refuses a pod what the manager wrote into its state Secret. RBAC knows no parts of a Secret, and the pod
// runs a driver that nobody has looked at: which attempt was claimed, with which driver, and whose the Secret is
// must not be for the driver to say; nor a credential, which the manager still takes from states of earlier managers. A Secret that no account is noted on, such as a probe's result, which a driver cannot
// reach, is left alone.
func stateKeepsItsClaim() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	spec := admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(updates, admissionregistrationv1.Rule{APIGroups: []string{""}, Resources: []string{"secrets"}}),
		// In this order: of all other Secrets nothing but the type is looked at.
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
