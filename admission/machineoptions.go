package admission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/drover-project/drover/crdgen"
)

// OptionsPolicyName is the name of the policy that keeps the options of a running server, and of its binding.
const OptionsPolicyName = "drover-machines-keep-their-options"

const optionsMessage = "the driver's options of a machine whose server runs cannot be changed, for nothing would be done to the server: " +
	"create a new machine template and point spec.template.spec.infrastructureRef.name of the MachineDeployment at it, which then replaces its machines; " +
	"common, and fields that hold a credential, can be changed"

// mayChange are the fields of a running machine that have an effect later: providerID has a rule of its own, common is about the Node and
// the credential Secret, and a credential written into the spec is rotated there. A policy for the drivers of all times cannot ask which
// fields are a credential, so it goes by their names; a field that it takes for one is accepted, as before.
const mayChange = `(k in ['common', 'providerID'] || k.matches('(?i)(token|password|passphrase|secret|key|credential|username|clientid)'))`

// machinesKeepTheirOptions is a policy and no rule in each kind, so that it holds for kinds and objects that are there already and costs a
// kind with a hundred fields nothing. A field that is null is one that is not there.
func machinesKeepTheirOptions() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	same := func(one, other string) string {
		return one + ".?spec.orValue({}).all(k, " + mayChange + " || " + one + ".spec[k] == " + other + ".?spec[?k].orValue(null))"
	}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: updatesOf(admissionregistrationv1.Rule{APIGroups: []string{crdgen.MachineGroup}, Resources: []string{"*"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-machine", Expression: "request.kind.kind.endsWith('Machine')"},
			{Name: "has-a-server", Expression: "oldObject.?status.?ready.orValue(false) == true"},
			{Name: "stays", Expression: "!has(oldObject.metadata.deletionTimestamp)"},
			{Name: "changes", Expression: "object.?spec != oldObject.?spec"},
		},
		Validations: []admissionregistrationv1.Validation{
			{Expression: same("object", "oldObject") + " && " + same("oldObject", "object"), Message: optionsMessage}},
	}
}
