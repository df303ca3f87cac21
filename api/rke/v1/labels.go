package v1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels and annotations. Those under rke.cattle.io are Rancher's, those under drover.cattle.io are
// additions.
const (
	// CAPIMachineLabel on the infra machine and its Job names the CAPI Machine.
	CAPIMachineLabel = "rke.cattle.io/capi-machine-name"
	// InfraMachineGroupLabel, ...Version, ...Kind and ...Name on a Job name the infra machine.
	InfraMachineGroupLabel   = "rke.cattle.io/infra-machine-group"
	InfraMachineVersionLabel = "rke.cattle.io/infra-machine-version"
	InfraMachineKindLabel    = "rke.cattle.io/infra-machine-kind"
	InfraMachineNameLabel    = "rke.cattle.io/infra-machine-name"
	// InfraRemoveLabel on a Job is "true" when it removes.
	InfraRemoveLabel = "rke.cattle.io/infra-remove"
	// NodeMachineLabel on a Node identifies its machine: by the machine's MachineIDLabel if its
	// plan made the Node, because a move keeps this label; by the UID of its CAPI Machine if
	// another bootstrap provider did.
	NodeMachineLabel = "rke.cattle.io/machine"
	// HostnameLengthLimitAnnotation limits the server's name, 10 to 63.
	HostnameLengthLimitAnnotation = "rke.cattle.io/hostname-length-limit"
	// ForceRemoveAnnotation (Rancher's) lets a machine go after its remove Job failed; read like
	// AbandonAnnotation, so it must repeat the machine's name and Rancher's plain "true" does
	// nothing.
	ForceRemoveAnnotation = "provisioning.cattle.io/force-machine-remove"

	// AttemptLabel on a Job is its number.
	AttemptLabel = "drover.cattle.io/attempt"
	// OperationLabel on a Job is create, remove or probe.
	OperationLabel = "drover.cattle.io/operation"
	// MachineUIDLabel on a Job, its Secrets and service account is the infra machine's UID.
	MachineUIDLabel = "drover.cattle.io/machine-uid"
	// NodeDriverLabel on a kind's CRD, a Job or a cached binary names the driver.
	NodeDriverLabel = "io.cattle.node_driver.name"
	// PeriodicLabel marks ServerScans that the manager created periodically: true, or unused if no
	// machine named the credential any more.
	PeriodicLabel = "drover.cattle.io/periodic"
	// AbandonAnnotation on an infra machine that is being deleted gives its server up; the value
	// must be the machine's name.
	AbandonAnnotation = "drover.cattle.io/abandon"
	// RemoveRestoredAnnotation on an infra machine that waits with OwnerUnknownReason has its
	// server removed; the value must be the machine's name.
	RemoveRestoredAnnotation = "drover.cattle.io/remove-restored"
	// RetryAnnotation on an infra machine asks for another attempt at once, or to deliver a plan
	// again that its agent gave up; any new value counts once.
	RetryAnnotation = "drover.cattle.io/retry"
	// AllowedNamespacesAnnotation on a credential Secret lists namespaces (comma-separated, or *)
	// whose machines and control planes may use it.
	AllowedNamespacesAnnotation = "drover.cattle.io/allowed-namespaces"
	// RequestHashAnnotation on a Job is a hash of its request.
	RequestHashAnnotation = "drover.cattle.io/request-hash"
	// BlockMoveAnnotation, which is clusterctl's, on an infra machine or its state Secret holds
	// `clusterctl move` up while a Job may run.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
	// MoveLabel, which is clusterctl's, on a user's Secret has `clusterctl move` take it along.
	MoveLabel = "clusterctl.cluster.x-k8s.io/move"
	// TaggedUIDAnnotation on a state Secret is the machine UID in the tags of its servers, which
	// stays when a restored machine gets another.
	TaggedUIDAnnotation = "drover.cattle.io/tagged-uid"
	// CleanByPlanAnnotation on an infra machine that is being deleted asks for its host to be
	// cleaned by the machine's agent, for its Job could not over SSH; the value is the UID in the
	// host's claim.
	CleanByPlanAnnotation = "drover.cattle.io/clean-by-plan"
	// PodAccountAnnotation on a state Secret names the service account of the pods that write it.
	PodAccountAnnotation = "drover.cattle.io/pod-account"

	// MachineFinalizer keeps an infra machine until its server is gone.
	MachineFinalizer = "drover.cattle.io/machine"
	// ControlPlaneFinalizer keeps an RKEControlPlane, and with it the cluster's authorities, while
	// its Cluster has machines.
	ControlPlaneFinalizer = "drover.cattle.io/controlplane"
	// NodeDriverFinalizer keeps a NodeDriver's kinds until no machine uses them.
	NodeDriverFinalizer = "drover.cattle.io/nodedriver"

	// MachineStateSecretType is the type of <m>-machine-state.
	MachineStateSecretType = "rke.cattle.io/machine-state"
	// MachineCredentialSecretType is the type of <m>-machine-credential. It need not be readable
	// for Jobs, or for users that log in.
	MachineCredentialSecretType = "rke.cattle.io/machine-credential"
	// MachineRequestSecretType is the type of the Secret a Job reads its request from.
	MachineRequestSecretType = "drover.cattle.io/machine-request"
	// CloudCredentialSecretType is the type of a credential in a cluster's namespace; Opaque is
	// accepted too.
	CloudCredentialSecretType = "provisioning.cattle.io/cloud-credential"
)

// Allows reports whether a namespace is the object's own, or its AllowedNamespacesAnnotation names
// it.
func Allows(obj metav1.Object, namespace string) bool {
	if obj.GetNamespace() == namespace {
		return true
	}
	for allowed := range strings.SplitSeq(obj.GetAnnotations()[AllowedNamespacesAnnotation], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == "*" || allowed == namespace {
			return true
		}
	}
	return false
}

// Labels and annotations of a cluster's machines and of their plans. They are Rancher's, except for
// the prefix drover.cattle.io.
const (
	// ClusterNameLabel on the objects of a cluster names it.
	ClusterNameLabel = "rke.cattle.io/cluster-name"
	// EtcdRoleLabel, ControlPlaneRoleLabel and WorkerRoleLabel on a CAPI Machine are "true" for the
	// roles it has.
	EtcdRoleLabel         = "rke.cattle.io/etcd-role"
	ControlPlaneRoleLabel = "rke.cattle.io/control-plane-role"
	WorkerRoleLabel       = "rke.cattle.io/worker-role"
	// EtcdForceRemoveAnnotation with the value "true" allows changes that delete the only server with
	// the cluster's data. It belongs on the provisioning Cluster, or else on the MachineDeployment or
	// MachineSet.
	EtcdForceRemoveAnnotation = "rke.cattle.io/etcd-force-remove"
	// MachinePoolLabel on the objects of a pool of a provisioning Cluster names the pool.
	MachinePoolLabel = "rke.cattle.io/rke-machine-pool-name"
	// ClonedFromGroupVersionAnnotation, ClonedFromKindAnnotation and ClonedFromNameAnnotation on a
	// machine template name the Config whose options it has.
	ClonedFromGroupVersionAnnotation = "rke.cattle.io/cloned-from-group-version"
	ClonedFromKindAnnotation         = "rke.cattle.io/cloned-from-kind"
	ClonedFromNameAnnotation         = "rke.cattle.io/cloned-from-name"
	// CredentialAnnotation on an infra machine names its credential, before spec.common does. A
	// MachineDeployment passes a change of it to existing machines.
	CredentialAnnotation = "drover.cattle.io/cloud-credential"
	// MachineIDLabel on an RKEBootstrap is the machine's identity in plans. Unlike a UID it is the
	// same after a move.
	MachineIDLabel = "rke.cattle.io/machine-id"
	// MachineNodeNameLabel on a CAPI Machine is the name of its Node; default: the server's host
	// name.
	MachineNodeNameLabel = "rke.cattle.io/node-name"
	// TokenBurnedAnnotation on a machine's plan and bootstrap Secrets means that its agent has
	// reported, and that the token registers no other agent.
	TokenBurnedAnnotation = "drover.cattle.io/token-burned"
	// ArmedForAnnotation on a machine's bootstrap Secret is the create attempt that its token is
	// for, and CreateAttemptAnnotation the one that the infra machine is about to start, with whose
	// server the earlier ones' may not be confused. Other infrastructure providers know neither.
	ArmedForAnnotation      = "drover.cattle.io/armed-for"
	CreateAttemptAnnotation = "drover.cattle.io/create-attempt"
	// ReadmitAgentAnnotation on an RKEBootstrap requests a token for an agent whose key was
	// lost, and is then removed; on a bootstrap Secret it marks such a token.
	ReadmitAgentAnnotation = "drover.cattle.io/readmit-agent"
	// BootstrappedAnnotation on an RKEControlPlane is its name once a server has created the
	// cluster. From then on its Secrets are not generated again, even if a backup restores them
	// last. A copy with another name does not match.
	BootstrappedAnnotation = "drover.cattle.io/bootstrapped"
	// DataVersionAnnotation on a machine's bootstrap Secret changes with its content, but not with
	// its token.
	DataVersionAnnotation = "drover.cattle.io/data-version"
	// OSLabel on a CAPI Machine is linux, which it is without, or windows.
	OSLabel = "cattle.io/os"
	// InitNodeLabel on a plan Secret is "true" for the machine that made, or makes, the cluster.
	InitNodeLabel = "rke.cattle.io/init-node"
	// InitNodeMachineIDLabel on an RKEControlPlane is the machine that has to be the init node.
	InitNodeMachineIDLabel = "rke.cattle.io/init-node-machine-id"
	// JoinURLAnnotation on a plan Secret is where other machines join this one.
	JoinURLAnnotation = "rke.cattle.io/join-url"
	// PlanRetriedAnnotation on a plan Secret stands for the value that RetryAnnotation of the infra
	// machine had when the plan was delivered last.
	PlanRetriedAnnotation = "drover.cattle.io/plan-retried"
	// JoinedToAnnotation on a plan Secret is the join URL that its machine was given; "-" for the
	// init node.
	JoinedToAnnotation = "rke.cattle.io/joined-to"
	// AgentSeenAnnotation on a plan Secret is when its agent was given access last, in RFC 3339: an
	// agent that runs renews it.
	AgentSeenAnnotation = "drover.cattle.io/agent-seen"
	// AgentServerAnnotation on a plan Secret is the server from which its agent has registered, as
	// the server's cloud names it: cloud-init's name of the cloud and the server's ID there. Absent
	// if the agent does not know.
	AgentServerAnnotation = "drover.cattle.io/agent-server"
	// CleansAnnotation on a plan Secret means that its plan cleans the host; the value is the value
	// of CleanByPlanAnnotation.
	CleansAnnotation = "drover.cattle.io/cleans"
	// NodeLabelsAnnotation and NodeTaintsAnnotation on a CAPI Machine are JSON: labels and taints
	// of its Node, in addition to the ones of its infra machine.
	NodeLabelsAnnotation = "rke.cattle.io/labels"
	NodeTaintsAnnotation = "rke.cattle.io/taints"
	// RunningVersionAnnotation on a CAPI Machine is the version that its control plane wrote into
	// spec.version, which otherwise is a user's.
	RunningVersionAnnotation = "drover.cattle.io/running-version"
	// AddressAnnotation and InternalAddressAnnotation on a CAPI Machine are addresses, separated by
	// commas, that replace the addresses of its infra machine.
	AddressAnnotation         = "rke.cattle.io/address"
	InternalAddressAnnotation = "rke.cattle.io/internal-address"
	// AuthorizedForClustersAnnotation on a Secret or ConfigMap lists the clusters, separated by
	// commas, that may have it as a file.
	AuthorizedForClustersAnnotation = "rke.cattle.io/object-authorized-for-clusters"
)

// Types of a cluster's Secrets.
const (
	// ClusterStateSecretType is the type of <control plane>-rke-state: serverToken and agentToken.
	ClusterStateSecretType = "rke.cattle.io/cluster-state"
	// BootstrapSecretType is the type of <bootstrap>-machine-bootstrap.
	BootstrapSecretType = "rke.cattle.io/bootstrap"
)
