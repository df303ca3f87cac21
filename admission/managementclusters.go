package admission

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// managementClustersHaveAnOwner protects the owners of management Clusters. Their schema keeps the
// owner's namespace and name.
//
// Only an identity that may write the status creates management Clusters and changes the UID of their
// owner: the manager, and administrators, for example with a backup tool. The deletion of a management
// Cluster deletes its provisioning Cluster, so that it needs the right to that deletion, too.
func managementClustersHaveAnOwner() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	const writesStatus = "authorizer.group('management.cattle.io').resource('clusters').subresource('status').check('patch').allowed()"
	const owner = "oldObject.spec.provisioningCluster"
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(append(slices.Clip(writes), admissionregistrationv1.Delete),
			admissionregistrationv1.Rule{APIGroups: []string{v3.GroupVersion.Group}, Resources: []string{"clusters"}}),
		Validations: []admissionregistrationv1.Validation{
			{Expression: "request.operation != 'CREATE' || " + writesStatus,
				Message: "Drover creates management Clusters: create a Cluster of provisioning.cattle.io instead"},
			{Expression: "request.operation != 'UPDATE' || object.spec.provisioningCluster == " + owner + " || " + writesStatus,
				Message: "only Drover changes spec.provisioningCluster of a management Cluster"},
			{Expression: fmt.Sprintf("request.operation != 'DELETE' || authorizer.group('provisioning.cattle.io').resource('clusters').namespace(%[1]s.namespace).name(%[1]s.name).check('delete').allowed()", owner),
				MessageExpression: fmt.Sprintf("'the deletion of a management Cluster deletes its provisioning Cluster, and you may not delete clusters.provisioning.cattle.io ' + %[1]s.name + ' in namespace ' + %[1]s.namespace", owner)},
		},
	}
}
