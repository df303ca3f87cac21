package v1

// Labels and annotations of a cluster's machines and of their plans. All are Rancher's.
const (
	// ClusterNameLabel on the objects of a cluster names it.
	ClusterNameLabel = "rke.cattle.io/cluster-name"
	// EtcdRoleLabel, ControlPlaneRoleLabel and WorkerRoleLabel on a CAPI Machine are "true" for the roles it has.
	EtcdRoleLabel         = "rke.cattle.io/etcd-role"
	ControlPlaneRoleLabel = "rke.cattle.io/control-plane-role"
	WorkerRoleLabel       = "rke.cattle.io/worker-role"
	// MachineIDLabel on an RKEBootstrap is the machine's identity in plans. Unlike a UID it is the same after a move (design decision D24).
	MachineIDLabel = "rke.cattle.io/machine-id"
	// MachineNodeNameLabel on a CAPI Machine is the name its Node gets; the server's own when there is none.
	MachineNodeNameLabel = "rke.cattle.io/node-name"
	// OSLabel on a CAPI Machine is linux, which it is without, or windows.
	OSLabel = "cattle.io/os"
	// InitNodeLabel on a plan Secret is "true" for the machine that made, or makes, the cluster.
	InitNodeLabel = "rke.cattle.io/init-node"
	// InitNodeMachineIDLabel on an RKEControlPlane is the machine that has to be the init node.
	InitNodeMachineIDLabel = "rke.cattle.io/init-node-machine-id"
	// JoinURLAnnotation on a plan Secret is where other machines join this one.
	JoinURLAnnotation = "rke.cattle.io/join-url"
	// JoinedToAnnotation on a plan Secret is the join URL that its machine was given; "-" for the init node.
	JoinedToAnnotation = "rke.cattle.io/joined-to"
	// NodeLabelsAnnotation and NodeTaintsAnnotation on a CAPI Machine are JSON: what its Node gets beside what its infra machine says.
	NodeLabelsAnnotation = "rke.cattle.io/labels"
	NodeTaintsAnnotation = "rke.cattle.io/taints"
	// AddressAnnotation and InternalAddressAnnotation on a CAPI Machine are addresses, separated by commas, that go before those of its infra machine.
	AddressAnnotation         = "rke.cattle.io/address"
	InternalAddressAnnotation = "rke.cattle.io/internal-address"
	// AuthorizedForClustersAnnotation on a Secret or ConfigMap lists the clusters, separated by commas, that may have it as a file.
	AuthorizedForClustersAnnotation = "rke.cattle.io/object-authorized-for-clusters"
)

// Types of a cluster's Secrets.
const (
	// ClusterStateSecretType is the type of <control plane>-rke-state: serverToken and agentToken.
	ClusterStateSecretType = "rke.cattle.io/cluster-state"
	// BootstrapSecretType is the type of <bootstrap>-machine-bootstrap.
	BootstrapSecretType = "rke.cattle.io/bootstrap"
)
