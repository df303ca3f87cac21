package admission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// referencesLeadToProviders rejects references to groups that contain no provider: groups of
// Kubernetes, Cluster API's own, and the NodeDrivers' group. Cluster API finds no version of them
// that implements its contract (internal/contract, GetLatestContractAndAPIVersionFromContract), and
// can never delete an object with such a reference. Existing objects can still be edited and
// deleted. A reference has an apiGroup since v1beta2, before that an apiVersion.
func referencesLeadToProviders() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	group := func(name, ref string) admissionregistrationv1.Variable {
		in := func(spec string) string {
			return spec + ref + ".?apiGroup.orValue(" + spec + ref + ".?apiVersion.orValue('').split('/')[0])"
		}
		return admissionregistrationv1.Variable{Name: name, Expression: "[" + in("object.spec") + ", " + in("object.spec.?template.spec") + "]"}
	}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(writes,
			admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters", "machines", "machinesets", "machinedeployments"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "changes", Expression: "oldObject == null || object.spec != oldObject.spec"}},
		Variables: []admissionregistrationv1.Variable{
			group("infrastructure", ".?infrastructureRef"), group("bootstrap", ".?bootstrap.configRef"), group("controlPlane", ".?controlPlaneRef"),
			{Name: "wrong", Expression: "(variables.infrastructure + variables.bootstrap + variables.controlPlane).filter(g, g != '' && (" +
				"g in ['management.cattle.io', 'cluster.x-k8s.io', 'addons.cluster.x-k8s.io', 'runtime.cluster.x-k8s.io', 'ipam.cluster.x-k8s.io'] || " +
				"!g.contains('.') || g.endsWith('.k8s.io') && !g.endsWith('.x-k8s.io')))"},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "variables.wrong.size() == 0",
			MessageExpression: "'a reference names a kind of group ' + variables.wrong[0] + ', which contains no provider of Cluster API. The object could not be deleted later. " +
				"Name a kind of rke.cattle.io, rke-machine.cattle.io or another provider'"}},
	}
}
