package v1

// Conditions of an RKEControlPlane and of its machines, beside Ready and Paused.
const (
	// AvailableCondition of an RKEControlPlane is True while its API answers; Cluster API shows it
	// on the Cluster.
	AvailableCondition = "Available"
	// ReconciledCondition is True if the actual state matches the specification. On a CAPI Machine
	// its message says why the machine waits.
	ReconciledCondition = "Reconciled"
	// PlanAppliedCondition of a CAPI Machine is True when its agent has applied the plan it was
	// given, False when that failed for good.
	PlanAppliedCondition = "PlanApplied"
	// WarningsCondition of an RKEControlPlane is True while a part of its specification has no
	// effect, or cannot be checked; otherwise it is absent.
	WarningsCondition = "Warnings"
)

// Reasons for which an RKEControlPlane is not worked on, or its API is not used.
const (
	// MachinesExistReason: it is being deleted while its Cluster has machines.
	MachinesExistReason = "MachinesExist"
	// ClusterHasAnotherReason: the Cluster has another control plane.
	ClusterHasAnotherReason = "ClusterHasAnotherControlPlane"
	// AuthorityInvalidReason: a Secret with one of the cluster's authorities, most likely the
	// user's own, cannot be used.
	AuthorityInvalidReason = "AuthorityInvalid"
	// EndpointInvalidReason: the user's address of the cluster's API is not valid in a kubeconfig.
	EndpointInvalidReason = "EndpointInvalid"
	// ClusterSecretMissingReason: a Secret that the cluster was made with is gone.
	ClusterSecretMissingReason = "ClusterSecretMissing"
	// WarningsReason: the message has them.
	WarningsReason = "SpecificationHasWarnings"
	// APIAnswersReason and APINotReachedReason: whether the manager reaches the cluster's API by
	// its kubeconfig.
	APIAnswersReason    = "APIAnswers"
	APINotReachedReason = "APINotReached"
	// PlanAppliedReason: the plan that the machine was given last is applied.
	PlanAppliedReason = "PlanApplied"
)

// Reasons for which no machine of a cluster gets a plan.
const (
	KubernetesVersionMissingReason = "KubernetesVersionMissing"
	// KubernetesVersionUnknownReason: the catalogue of releases does not contain this minor version
	// of k3s or RKE2.
	KubernetesVersionUnknownReason = "KubernetesVersionUnknown"
	// KubernetesVersionSkewReason: the cluster's servers cannot go to this version from the one
	// that they run.
	KubernetesVersionSkewReason = "KubernetesVersionSkew"
	// ReleasesInvalidReason: the catalogue that replaces the built-in one cannot be read.
	ReleasesInvalidReason = "ReleasesInvalid"
	// NoEtcdMachineReason and NoControlPlaneMachineReason: no machine that stays has the role.
	NoEtcdMachineReason         = "NoEtcdMachine"
	NoControlPlaneMachineReason = "NoControlPlaneMachine"
	// EtcdLostReason: the cluster had been made, and the machines that held its data are gone.
	EtcdLostReason = "EtcdLost"
	// WaitingForTokensReason and WaitingForAuthoritiesReason: the cluster's own Secrets are not
	// there yet.
	WaitingForTokensReason      = "WaitingForTokens"
	WaitingForAuthoritiesReason = "WaitingForAuthorities"
	// ReferencesExceededReason: the specification names more Secrets and ConfigMaps, or larger
	// ones, than the manager reads for one cluster.
	ReferencesExceededReason = "ReferencesExceeded"
	// PlansExceededReason: so much is in the plan Secrets of the cluster that it is not all looked
	// at.
	PlansExceededReason = "PlansExceeded"
	// ConfigInvalidReason: k3s or RKE2 would reject a value of the configuration.
	ConfigInvalidReason = "ConfigInvalid"
	// MachineInvalidReason: a Node cannot have a label or a taint that the Machine or its infra
	// machine requests.
	MachineInvalidReason = "MachineInvalid"
	// RegistrySecretMissingReason and RegistrySecretInvalidReason concern the Secrets that
	// spec.registries names.
	RegistrySecretMissingReason = "RegistrySecretMissing"
	RegistrySecretInvalidReason = "RegistrySecretInvalid"
	// FileSourceMissingReason, FileSourceNotAuthorizedReason and FileSourceInvalidReason concern
	// the sources in spec.machineSelectorFiles and in the argument cloud-provider-config.
	FileSourceMissingReason       = "FileSourceMissing"
	FileSourceNotAuthorizedReason = "FileSourceNotAuthorized"
	FileSourceInvalidReason       = "FileSourceInvalid"
	// SnapshotCredentialMissingReason and SnapshotCredentialInvalidReason concern the Secret that
	// spec.etcd.s3 names.
	SnapshotCredentialMissingReason = "SnapshotCredentialMissing"
	SnapshotCredentialInvalidReason = "SnapshotCredentialInvalid"
	// WaitingForMachinesReason: some machines are not yet as the specification says.
	WaitingForMachinesReason = "WaitingForMachines"
	// ReconciledReason: all machines are as the specification says.
	ReconciledReason = "AllReconciled"
)

// Reasons for which a machine is not yet as the specification says, in the order in which a machine
// passes them.
const (
	NoRoleReason                     = "NoRole"
	OperatingSystemUnsupportedReason = "OperatingSystemUnsupported"
	// TierUnsupportedReason: further servers of the control plane are not built yet.
	TierUnsupportedReason = "TierUnsupported"
	MachineDeletingReason = "MachineDeleting"
	// WaitingForPlanSecretReason: the bootstrap provider has not made the machine's plan Secret yet.
	WaitingForPlanSecretReason = "WaitingForPlanSecret"
	// WaitingForServerReason: the infra machine is not provisioned, so neither its providerID nor
	// its addresses are known.
	WaitingForServerReason = "WaitingForServer"
	// NodeOfEarlierServerReason: the cluster has a Node of the machine with the provider ID of an
	// earlier server, and a kubelet reports it.
	NodeOfEarlierServerReason = "NodeOfEarlierServer"
	// WaitingForControlPlaneReason: the machine joins a server that is not ready for it.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// WaitingForTurnReason: so many machines as may change at a time are not yet as they should be.
	WaitingForTurnReason = "WaitingForTurn"
	// PlanDeliveredReason: the plan was written just now.
	PlanDeliveredReason = "PlanDelivered"
	// WaitingForAgentReason: no agent has taken the plan up.
	WaitingForAgentReason = "WaitingForAgent"
	// AgentSilentReason: its agent was there, and has not called for longer than its access lasts.
	AgentSilentReason  = "AgentSilent"
	ApplyingPlanReason = "ApplyingPlan"
	// RetryingPlanReason: an attempt failed, and the agent tries again.
	RetryingPlanReason = "RetryingPlan"
	// AgentStuckReason: a problem outside of the plan's steps, such as a full disk, stops the
	// agent; it retries.
	AgentStuckReason = "AgentStuck"
	// PlanFailedReason: the agent has tried as often as the plan allows.
	PlanFailedReason       = "PlanFailed"
	WaitingForProbesReason = "WaitingForProbes"
	// ProbesFailingReason: minutes after the plan was applied, or after all was well, some probes
	// are not healthy.
	ProbesFailingReason = "ProbesFailing"
	// KubernetesVersionDiffersReason: minutes after the plan was applied, the kubelet runs another
	// version than the plan installed.
	KubernetesVersionDiffersReason = "KubernetesVersionDiffers"
	// ServerTokenChangedReason: the state Secret has another serverToken than the server was
	// started with.
	ServerTokenChangedReason = "ServerTokenChanged"
	// AddressChangedReason: the server does not have the address that its applied plan uses for its
	// Node.
	AddressChangedReason = "AddressChanged"
	// UpToDateReason: the plan is applied and all probes are healthy.
	UpToDateReason = "PlanUpToDate"
)

// DataSecretAvailableCondition of an RKEBootstrap is True when the Secret with its script is there;
// the name is the one that Cluster API's own bootstrap provider has for it.
const DataSecretAvailableCondition = "DataSecretAvailable"

// Reasons of an RKEBootstrap's conditions, beside those that machines and control planes have, and
// of events about agents.
const (
	DataSecretAvailableReason = "Available"
	// AgentSecretsMissingReason: the Secrets by which a server's agent is known are gone, both of
	// them.
	AgentSecretsMissingReason = "AgentSecretsMissing"
	// ServerURLMissingReason: the manager does not know by which address servers reach it.
	ServerURLMissingReason = "ServerURLMissing"
	// ControlPlaneForeignReason: the Cluster has another provider's control plane.
	ControlPlaneForeignReason = "ControlPlaneForeign"
	// ControlPlaneTakenReason: the Cluster names the control plane of another one.
	ControlPlaneTakenReason = "ControlPlaneTaken"
	// TokenReplayedReason: a bootstrap token was used by a second agent, which was refused.
	TokenReplayedReason = "TokenReplayed"
	// RegistrationsRefusedReason: an address asked the endpoint too often with tokens or keys that
	// are not known.
	RegistrationsRefusedReason = "RegistrationsRefused"
	// CertificateAnnouncedReason: the endpoint has a new certificate, which it uses after agents
	// have had the time to learn its authority.
	CertificateAnnouncedReason = "CertificateAnnounced"
	// CertificateUnverifiedReason: servers are to verify the endpoint by authorities of their own,
	// and may not have the one that signed its certificate.
	CertificateUnverifiedReason = "CertificateUnverified"
)
