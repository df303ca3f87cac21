package v1

// Conditions of a Cluster.
const (
	// ReadyCondition is True while the cluster's API answers and each pool has its rendered number
	// of ready machines with the current configuration.
	ReadyCondition = "Ready"
	// UpdatedCondition is True while the servers have the configuration that the Cluster asks for.
	// A part that Drover does not act on, or holds back, makes it False.
	UpdatedCondition = "Updated"
	// ProvisionedCondition is True from the first time that the cluster's API answers.
	ProvisionedCondition = "Provisioned"
	// RKEClusterCondition is True while the objects of Cluster API match the Cluster.
	RKEClusterCondition = "RKECluster"
	// MachinesUpToDateCondition is True while no machine has to be created, replaced or deleted.
	MachinesUpToDateCondition = "MachinesUpToDate"
	// ManagementClusterCondition is True while the management Cluster that status.clusterName names
	// belongs to the Cluster.
	ManagementClusterCondition = "ManagementCluster"
	// PausedCondition is True while Drover changes nothing.
	PausedCondition = "Paused"
	// NotActedOnCondition is True while the specification has fields that have no effect; its
	// message has their paths.
	NotActedOnCondition = "NotActedOn"
)

// Reasons of a Cluster's conditions. The reasons of an RKEControlPlane appear too.
const (
	// ReadyReason: the Cluster is as its specification says.
	ReadyReason = "Ready"
	// RenderedReason: the objects of Cluster API match the Cluster.
	RenderedReason = "Rendered"
	// ImportedReason: the Cluster has no rkeConfig, so nothing is created for it.
	ImportedReason = "Imported"
	// ExternalInfrastructureReason: the Cluster names the infrastructure of another provider.
	ExternalInfrastructureReason = "ExternalInfrastructure"
	// CAPIClusterMissingReason: the Cluster was rendered before, and its CAPI Cluster is gone.
	CAPIClusterMissingReason = "CAPIClusterMissing"
	// RestoreIncompleteReason: the CAPI Cluster was restored, and objects that it had are missing.
	RestoreIncompleteReason = "RestoreIncomplete"
	// NameTakenReason: an object that the Cluster needs exists, and is not the Cluster's.
	NameTakenReason = "NameTaken"
	// NamedReason: the management Cluster of status.clusterName belongs to the Cluster.
	NamedReason = "Named"
	// NameInvalidReason: the annotation with the name of the management Cluster has no valid name.
	NameInvalidReason = "NameInvalid"
	// ConfigMissingReason: a pool names a Config that does not exist.
	ConfigMissingReason = "ConfigMissing"
	// ConfigTakenReason: a pool names a Config that belongs to another Cluster.
	ConfigTakenReason = "ConfigTaken"
	// DriverInactiveReason: a pool names a Config of a driver that is not active.
	DriverInactiveReason = "DriverInactive"
	// TierUnsupportedReason: a pool asks for servers that Drover does not yet create.
	TierUnsupportedReason = "TierUnsupported"
	// PoolHoldsEtcdReason: a change would delete or replace the machine with the cluster's data.
	PoolHoldsEtcdReason = "PoolHoldsEtcd"
	// MachinesUpToDateReason: no machine has to be created, replaced or deleted.
	MachinesUpToDateReason = "MachinesUpToDate"
	// ReplacementPendingReason: machines are not replaced before the user approves it.
	ReplacementPendingReason = "ReplacementPending"
	// ReplacingMachinesReason: machines of an earlier Config are being replaced.
	ReplacingMachinesReason = "ReplacingMachines"
	// WaitingForMachinesReason: machines are being created, replaced or deleted.
	WaitingForMachinesReason = "WaitingForMachines"
	// WaitingForControlPlaneReason: the control plane has not yet read the current specification.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// FieldsNotActedOnReason: the specification has fields that have no effect.
	FieldsNotActedOnReason = "FieldsNotActedOn"
	// ReplacementStartedReason, ReplacementApprovedReason, ReplacementDoneReason and
	// ApprovalIgnoredReason are reasons of events: machines are being replaced, after an approval or
	// without one; all are replaced; an approval names another replacement than the one that waits.
	ReplacementStartedReason  = "ReplacementStarted"
	ReplacementApprovedReason = "ReplacementApproved"
	ReplacementDoneReason     = "ReplacementDone"
	ApprovalIgnoredReason     = "ApprovalIgnored"
	// RevertedReason is the reason of an event: a change of a rendered object was reverted.
	RevertedReason = "Reverted"
	// DeletingReason: the Cluster is being deleted.
	DeletingReason = "Deleting"
)
