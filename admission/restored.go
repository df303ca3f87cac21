package admission

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// restoredClustersArePaused rejects CAPI Clusters of a backup that are not paused. A MachineDeployment
// that is restored before its MachineSet, or a MachineSet before its Machines, would make a second set
// of machines. Drover creates a CAPI Cluster with its own field manager, and clusterctl moves paused
// ones.
func restoredClustersArePaused() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(writes[:1], admissionregistrationv1.Rule{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "was-rendered", Expression: fmt.Sprintf("object.metadata.?annotations[?%s].hasValue()", celString(provv1.PoolsAnnotation))},
			{Name: "is-restored", Expression: fmt.Sprintf("!has(request.options) || request.options.?fieldManager.orValue('') != %s", celString(provv1.FieldOwner))},
		},
		Validations: []admissionregistrationv1.Validation{{
			Expression: "object.?spec.paused.orValue(false) == true",
			Message: "this Cluster comes from a backup: set spec.paused: true in the file, restore all objects of the Cluster, and then resume it. " +
				"Otherwise Cluster API creates servers in place of those whose objects are not restored yet",
		}},
	}
}
