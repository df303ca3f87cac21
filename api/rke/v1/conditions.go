package v1

// Conditions of a <Driver>Machine. Polarity is positive; each is absent until its step was reached.
// Every condition but Ready and Paused belongs to one step of the machine controller.
const (
	// ReadyCondition sums up the others: True when the server exists and its state is stored.
	ReadyCondition = "Ready"
	// PausedCondition is True while the Cluster or the machine is paused.
	PausedCondition = "Paused"
	// ClusterReadyCondition is True when the CAPI Machine and Cluster are found and the cluster's
	// infrastructure is provisioned.
	ClusterReadyCondition = "ClusterReady"
	// DriverReadyCondition is True when the machine's driver is known and can be run.
	DriverReadyCondition = "DriverReady"
	// BootstrapReadyCondition is True when the bootstrap data is there.
	BootstrapReadyCondition = "BootstrapReady"
	// CredentialReadyCondition is True when the cloud credential was found, may be used here, and
	// is complete.
	CredentialReadyCondition = "CredentialReady"
	// CreateJobCondition is Unknown while a create Job runs, True when one succeeded, False when
	// the last one failed.
	CreateJobCondition = "CreateJob"
	// StateStoredCondition is True when the server's record, SSH key and addresses are stored.
	StateStoredCondition = "StateStored"
	// BootstrapDeliveredCondition is True when the Job has seen on the server that the bootstrap
	// data arrived, Unknown when it could not look, False when it surely did not arrive or its
	// script has failed; then the machine is not Ready and its server is kept for a look.
	BootstrapDeliveredCondition = "BootstrapDelivered"
	// ServerExistsCondition is True if the cloud listed the server at the last scan, False if it
	// listed the server once and no longer does, or if two scans certainly should have listed it
	// and did not, Unknown if no scan can determine this or none has run yet. False makes Ready
	// False.
	ServerExistsCondition = "ServerExists"
	// ProviderIDKnownCondition is True when spec.providerID is set.
	ProviderIDKnownCondition = "ProviderIDKnown"
	// DeleteJobCondition is Unknown while a remove Job runs, True when the server is gone, False
	// when the last one failed.
	DeleteJobCondition = "DeleteJob"
)

// Reasons of a <Driver>Machine's conditions.
const (
	ReadyReason                    = "Ready"
	ServerListedReason             = "ServerListed"
	ServerNotListedReason          = "ServerNotListed"
	ServerNotSeenReason            = "ServerNotSeen"
	WaitingForOwnerReason          = "WaitingForOwner"
	WaitingForClusterReason        = "WaitingForCluster"
	WaitingForInfrastructureReason = "WaitingForClusterInfrastructure"
	ClusterReadyReason             = "ClusterInfrastructureReady"
	DriverNotFoundReason           = "DriverNotFound"
	DriverNotReadyReason           = "DriverNotReady"
	DriverReadyReason              = "DriverReady"
	DriverFromStatusReason         = "DriverFromStatus"
	WaitingForBootstrapReason      = "WaitingForBootstrapData"
	BootstrapSecretMissingReason   = "BootstrapSecretMissing"
	BootstrapSecretInvalidReason   = "BootstrapSecretInvalid"
	UserDataTooLargeReason         = "UserDataTooLarge"
	// BootstrapFormatUnknownReason of a condition that is True: the data is handed over, but most
	// likely nothing reads it.
	BootstrapFormatUnknownReason = "BootstrapFormatUnknown"
	// DeliveredReason, NotVerifiedReason and NotDeliveredReason are the reasons of
	// BootstrapDelivered, with BootstrapFailedReason.
	DeliveredReason    = "Delivered"
	NotVerifiedReason  = "NotVerified"
	NotDeliveredReason = "NotDelivered"
	// UserDataHabitUnknownReason: the driver has a flag for user data, and its format is not
	// declared.
	UserDataHabitUnknownReason = "UserDataHabitUnknown"
	BootstrapReadyReason       = "BootstrapDataReady"
	CredentialMissingReason    = "CredentialMissing"
	CredentialInvalidReason    = "CredentialInvalid"
	CredentialNotSharedReason  = "CredentialNotShared"
	CredentialNotNeededReason  = "CredentialNotNeeded"
	// CredentialRecalledReason: the credential's Secret is gone or unusable; the one that was used
	// last, kept in the state Secret, removes the server.
	CredentialRecalledReason = "CredentialRecalled"
	CredentialReadyReason    = "CredentialReady"
	SpecInvalidReason        = "SpecInvalid"
	NameTooLongReason        = "NameTooLong"
	NameTakenReason          = "NameTaken"
	JobRunningReason         = "JobRunning"
	// ThrottledReason: the Job runs, and the cloud limits the request rate: the driver repeats its
	// request.
	ThrottledReason         = "Throttled"
	JobPendingReason        = "JobPending"
	JobQueuedReason         = "JobQueued"
	JobSucceededReason      = "JobSucceeded"
	JobCancelledReason      = "JobCancelled"
	WaitingForRetryReason   = "WaitingForRetry"
	AttemptsExhaustedReason = "AttemptsExhausted"
	// WaitingForQuotaReason, WaitingForCapacityReason and WaitingForRateLimitReason: the cloud
	// refused another machine that asks for the same with the same credential. One at a time asks
	// again, and the others follow.
	WaitingForQuotaReason     = "WaitingForQuota"
	WaitingForCapacityReason  = "WaitingForCapacity"
	WaitingForRateLimitReason = "WaitingForRateLimit"
	// CreateErrorReason and DeleteErrorReason are the values of status.failureReason, as in Cluster
	// API's MachineStatusError.
	CreateErrorReason    = "CreateError"
	DeleteErrorReason    = "DeleteError"
	StateStoredReason    = "StateStored"
	StateMissingReason   = "StateMissing"
	ProviderIDSetReason  = "ProviderIDSet"
	WaitingForNodeReason = "WaitingForNode"
	// ProviderIDMissingReason: neither the driver's record nor a Node has it. The Node waits for a
	// plan, and the plan waits for the provider ID.
	ProviderIDMissingReason = "ProviderIDMissing"
	ServerMayExistReason    = "ServerMayExist"
	ServerGoneReason        = "ServerGone"
	AbandonedReason         = "Abandoned"
	NothingMadeReason       = "NothingMade"
	// OwnerUnknownReason: a machine that came from a backup is deleted, most likely by the garbage
	// collector, because the CAPI Machine of its owner reference never existed in this cluster. Its
	// server is not removed until a user confirms it.
	OwnerUnknownReason = "OwnerUnknown"
	// WaitingForMachineDeletionReason: Cluster API is deleting the CAPI Machine and has not reached
	// its server yet, because the Machine's hooks run first. This also happens if a user deletes
	// only the infra machine, which deletes the Machine.
	WaitingForMachineDeletionReason = "WaitingForMachineDeletion"
	// RemovalBegunReason: the machine is not being deleted, but the removal of its server was
	// begun: a move or a restore forgot the deletion.
	RemovalBegunReason = "RemovalBegun"
	DeletingReason     = "Deleting"
)

// Failure classes; the values of status.lastAttempt.class. Unauthorized is also the reason of
// DeleteJob if the cloud rejects the credential and the state records the server.
const (
	ClassInvalid      = "Invalid"
	ClassUnauthorized = "Unauthorized"
	ClassQuota        = "Quota"
	ClassCapacity     = "Capacity"
	ClassThrottled    = "Throttled"
	ClassTransient    = "Transient"
	ClassUnknown      = "Unknown"
)

// Phases of a <Driver>Machine.
const (
	PhasePending  = "Pending"
	PhaseCreating = "Creating"
	PhaseRunning  = "Running"
	PhaseFailed   = "Failed"
	PhaseDeleting = "Deleting"
)
