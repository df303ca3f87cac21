package admission

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/crdgen"
)

// Names of the policies, and of their bindings.
const (
	PolicyName          = "drover-templates-are-immutable"
	StatePolicyName     = "drover-state-keeps-its-claim"             // a machine's pod writes its own part of the state Secret
	PlanPolicyName      = "drover-agents-write-their-keys"           // an agent writes its own keys of the plan Secret
	OptionsPolicyName   = "drover-machines-keep-their-options"       // a server that runs has the options that it was made with
	VersionPolicyName   = "drover-versions-are-the-control-planes"   // Cluster API rolls no machines that an RKEControlPlane changes in place
	ReferencePolicyName = "drover-references-lead-to-providers"      // Clusters and Machines name only kinds that can be part of them
	ReplicasPolicyName  = "drover-replicas-are-bounded"              // Cluster API creates all machines of a MachineSet in one loop
	OwnerPolicyName     = "drover-management-clusters-have-an-owner" // a user without the right to delete a Cluster cannot delete it through its management Cluster
	RestorePolicyName   = "drover-restored-clusters-are-paused"      // Cluster API creates machines in place of those that are not restored yet
	DeletionPolicyName  = "drover-etcd-deletions-are-announced"      // a user who deletes a server with etcd gets a warning
)

// Policies are the checks of the API server that work even if the manager does not run, each with
// its binding.
func Policies(owner *metav1.OwnerReference) []client.Object {
	return slices.Concat(denying(owner, PolicyName, templatesAreImmutable()), denying(owner, StatePolicyName, stateKeepsItsClaim()),
		denying(owner, PlanPolicyName, agentsWriteTheirKeys()),
		denying(owner, OptionsPolicyName, machinesKeepTheirOptions()), denying(owner, VersionPolicyName, versionsAreTheControlPlanes()),
		denying(owner, ReferencePolicyName, referencesLeadToProviders()), denying(owner, ReplicasPolicyName, replicasAreBounded()),
		denying(owner, OwnerPolicyName, managementClustersHaveAnOwner()),
		denying(owner, RestorePolicyName, restoredClustersArePaused()),
		policy(owner, DeletionPolicyName, admissionregistrationv1.Warn, etcdDeletionsAreAnnounced()))
}

func denying(owner *metav1.OwnerReference, name string, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) []client.Object {
	return policy(owner, name, admissionregistrationv1.Deny, spec)
}

func policy(owner *metav1.OwnerReference, name string, action admissionregistrationv1.ValidationAction, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) []client.Object {
	spec.FailurePolicy = new(admissionregistrationv1.Fail)
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metaOf(name, owner), Spec: spec},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metaOf(name, owner), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{action},
		}},
	}
}

var (
	writes = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	// updates is for policies that compare the old with the new object.
	updates = writes[1:]
)

func requestsFor(operations []admissionregistrationv1.OperationType, rules ...admissionregistrationv1.Rule) *admissionregistrationv1.MatchResources {
	match := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}, MatchPolicy: new(admissionregistrationv1.Equivalent)}
	for _, rule := range rules {
		rule.APIVersions, rule.Scope = []string{"*"}, new(admissionregistrationv1.AllScopes)
		match.ResourceRules = append(match.ResourceRules, admissionregistrationv1.NamedRuleWithOperations{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: operations, Rule: rule}})
	}
	return match
}

const immutableMessage = "the spec of a template is immutable, because machines created before and after a change would differ: " +
	"create a new template under another name, and set infrastructureRef.name or bootstrap.configRef.name in spec.template.spec of the MachineDeployment to it; the MachineDeployment then replaces its machines"

// templatesAreImmutable allows the dry runs with which a ClusterClass computes changes.
func templatesAreImmutable() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(updates,
			admissionregistrationv1.Rule{APIGroups: []string{crdgen.MachineGroup}, Resources: []string{"*"}},
			admissionregistrationv1.Rule{APIGroups: []string{"rke.cattle.io"}, Resources: []string{"rkeclustertemplates", "rkebootstraptemplates"}}),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-a-template", Expression: "request.kind.kind.endsWith('Template')"},
			{Name: "is-no-topology-dry-run", Expression: "!(has(request.dryRun) && request.dryRun && has(object.metadata.annotations) && " +
				"'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations)"},
		},
		Validations: []admissionregistrationv1.Validation{{Expression: "object.spec == oldObject.spec", Message: immutableMessage}},
	}
}

const optionsMessage = "the driver's options cannot be changed while the machine's server runs, because the change would not reach the server: " +
	"create a new machine template, and set spec.template.spec.infrastructureRef.name of the MachineDeployment to it, which then replaces its machines; " +
	"common and fields that hold a credential can be changed"

// mayChange matches the fields of a running machine that can still have an effect: providerID has
// its own rule, common concerns the Node and the credential Secret, and a credential in the spec is
// rotated there. A policy for the drivers of all versions cannot read which fields are a
// credential, so it matches their names; a field that it takes for one is accepted, as before.
const mayChange = `(k in ['common', 'providerID'] || k.matches('(?i)(token|password|passphrase|secret|key|credential|username|clientid)'))`

// machinesKeepTheirOptions is a policy and not a rule in each kind, so that it also applies to
// existing kinds and objects and adds no cost to a kind with a hundred fields. A null field counts
// as missing.
func machinesKeepTheirOptions() admissionregistrationv1.ValidatingAdmissionPolicySpec {
	same := func(one, other string) string {
		return one + ".?spec.orValue({}).all(k, " + mayChange + " || " + one + ".spec[k] == " + other + ".?spec[?k].orValue(null))"
	}
	return admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: requestsFor(updates, admissionregistrationv1.Rule{APIGroups: []string{crdgen.MachineGroup}, Resources: []string{"*"}}),
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
