package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// maxReplicas bounds the machines of a MachineDeployment or MachineSet. Cluster API creates all
// machines of a MachineSet in one reconcile, and reads a smaller number only afterwards.
const maxReplicas = 1000

// replicasAreBounded also checks requests to scale. A pool that is larger already may stay so, and
// shrink.
func replicasAreBounded() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(writes, admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group},
			Resources: []string{"machinedeployments", "machinedeployments/scale", "machinesets", "machinesets/scale"}}),
		Validations: []admissionregistrationv1.Validation{{
			Expression: fmt.Sprintf("object.?spec.replicas.orValue(0) <= %d || oldObject != null && object.spec.replicas <= oldObject.?spec.replicas.orValue(0)", maxReplicas),
			Message: fmt.Sprintf("spec.replicas is more than %d: Cluster API creates the machines of a MachineSet in one loop, and would not stop after the number is reduced. "+
				"Use several MachineDeployments", maxReplicas),
		}},
	}
}
