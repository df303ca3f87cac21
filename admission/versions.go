package admission

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

const (
	versionMessage = "a machine whose bootstrap is an RKEBootstrap must not have its own version, because Cluster API would replace the servers to change it: " +
		"remove spec.template.spec.version, and set spec.kubernetesVersion of the RKEControlPlane, which upgrades the servers in place"
	topologyMessage = "a ClusterClass cannot create an RKEControlPlane, because a topology replaces the machines of a cluster to change them: " +
		"create the Cluster with spec.controlPlaneRef, the RKEControlPlane and the MachineDeployments yourself"
)

// versionsAreTheControlPlanes rejects a version that would cause a rollout of servers. An object
// that already has a version can still be edited, and lose it. Pools are MachineDeployments and
// MachineSets; a ClusterClass names its control plane in templateRef, before v1beta2 in ref.
func versionsAreTheControlPlanes() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(writes,
			admissionregistrationv1.Rule{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"machinedeployments", "machinesets", "clusterclasses"}}),
		Variables: []admissionregistrationv1.Variable{
			{Name: "bootstrap", Expression: "object.spec.?template.spec.bootstrap.configRef.kind.orValue('')"},
			{Name: "version", Expression: "object.spec.?template.spec.version.orValue('')"},
			{Name: "before", Expression: "oldObject == null ? '' : oldObject.spec.?template.spec.version.orValue('')"},
			{Name: "controlPlane", Expression: "object.spec.?controlPlane.templateRef.kind.orValue('') + object.spec.?controlPlane.ref.kind.orValue('')"},
		},
		Validations: []admissionregistrationv1.Validation{
			{Expression: "variables.bootstrap != 'RKEBootstrapTemplate' || variables.version == '' || variables.version == variables.before", Message: versionMessage},
			{Expression: "!variables.controlPlane.startsWith('RKEControlPlane')", Message: topologyMessage},
		},
	}
}
