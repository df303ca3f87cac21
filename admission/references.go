package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// noProviders matches references to groups that contain no provider: groups of Kubernetes, Cluster
// API's own, and the NodeDrivers' group.
const noProviders = `r.split('/')[0] != '' && (r.split('/')[0] in ['management.cattle.io', 'cluster.x-k8s.io', 'addons.cluster.x-k8s.io', 'runtime.cluster.x-k8s.io', 'ipam.cluster.x-k8s.io'] || ` +
	`!r.split('/')[0].contains('.') || r.split('/')[0].endsWith('.k8s.io') && !r.split('/')[0].endsWith('.x-k8s.io'))`

// ours matches references to Drover's groups.
const ours = `r.matches('^(rke|rke-machine|rke-machine-config)[.]cattle[.]io/')`

// referencesLeadToProviders rejects new references to kinds that cannot be a part of the object.
// Cluster API finds no version of such a kind that implements its contract (internal/contract,
// GetLatestContractAndAPIVersionFromContract), and can never delete an object with such a reference.
// Kinds of other groups are allowed, because their provider may be installed later. Existing objects
// can still be edited and deleted. A reference has an apiGroup since v1beta2, before that an
// apiVersion.
func referencesLeadToProviders() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	// changed is a list of group/kind of the references that the request sets.
	changed := func(name, ref string) admissionregistrationv1.Variable {
		in := func(spec string) string {
			spec += ref
			return fmt.Sprintf("object.%[1]s.hasValue() && (oldObject == null || oldObject.%[1]s != object.%[1]s) ? "+
				"object.%[1]s.?apiGroup.orValue(object.%[1]s.?apiVersion.orValue('').split('/')[0]) + '/' + object.%[1]s.?kind.orValue('') : '/'", spec)
		}
		return admissionregistrationv1.Variable{Name: name, Expression: "[" + in("spec") + ", " + in("spec.?template.spec") + "]"}
	}
	is := func(kind string) string { return "request.kind.kind == '" + kind + "' ? " }
	misplaced := func(list, expected string) string {
		return fmt.Sprintf("variables.%s.filter(r, %s && !r.matches(%s))", list, ours, expected)
	}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(writes,
			admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters", "machines", "machinesets", "machinedeployments"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "changes", Expression: "oldObject == null || object.spec != oldObject.spec"}},
		Variables: []admissionregistrationv1.Variable{
			changed("infrastructure", ".?infrastructureRef"), changed("bootstrap", ".?bootstrap.configRef"), changed("controlPlane", ".?controlPlaneRef"),
			{Name: "wrong", Expression: "(variables.infrastructure + variables.bootstrap + variables.controlPlane).filter(r, " + noProviders + ")"},
			{Name: "suffix", Expression: is("Machine") + "'' : 'Template'"},
			{Name: "misplaced", Expression: misplaced("infrastructure", is("Cluster")+"'^rke[.]cattle[.]io/RKECluster$' : '^rke-machine[.]cattle[.]io/.+Machine' + variables.suffix + '$'") +
				" + " + misplaced("bootstrap", "'^rke[.]cattle[.]io/RKEBootstrap' + variables.suffix + '$'") +
				" + " + misplaced("controlPlane", "'^rke[.]cattle[.]io/RKEControlPlane$'")},
			{Name: "parts", Expression: is("Cluster") + "'RKECluster and RKEControlPlane of group rke.cattle.io' : " +
				"'<X>Machine' + variables.suffix + ' of group rke-machine.cattle.io and RKEBootstrap' + variables.suffix + ' of group rke.cattle.io'"},
		},
		Validations: []admissionregistrationv1.Validation{
			{Expression: "variables.wrong.size() == 0",
				MessageExpression: "'a reference names a kind of group ' + variables.wrong[0].split('/')[0] + ', which contains no provider of Cluster API. The object could not be deleted later. " +
					"Name a kind of rke.cattle.io, rke-machine.cattle.io or another provider'"},
			{Expression: "variables.misplaced.size() == 0",
				MessageExpression: "'a reference names ' + variables.misplaced[0] + ', which cannot be a part of a ' + request.kind.kind + '. The object could not be deleted later. " +
					"Drover has these parts: ' + variables.parts"},
		},
	}
}
