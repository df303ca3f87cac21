package v1

// Reasons that a Job itself gives for its failure; they stand in its result and in conditions.
const (
	CancelledReason                  = "Cancelled"
	RequestInvalidReason             = "RequestInvalid"
	JobFailedReason                  = "JobFailed"
	DiskFullReason                   = "DiskFull"
	OptionsInvalidReason             = "OptionsInvalid"
	StateUnreadableReason            = "StateUnreadable"
	StateTooLargeReason              = "StateTooLarge"
	StateUnwritableReason            = "StateUnwritable"
	DriverUnavailableReason          = "DriverUnavailable"
	DriverUnresponsiveReason         = "DriverUnresponsive"
	FlagsInvalidReason               = "FlagsInvalid"
	PreCreateCheckFailedReason       = "PreCreateCheckFailed"
	CreateFailedReason               = "CreateFailed"
	RemoveFailedReason               = "RemoveFailed"
	LookupFailedReason               = "LookupFailed"
	ServerNotRunningReason           = "ServerNotRunning"
	ServerIncompleteReason           = "ServerIncomplete"
	DuplicateServersReason           = "DuplicateServers"
	UserDataInvalidReason            = "UserDataInvalid"
	BootstrapFormatUnsupportedReason = "BootstrapFormatUnsupported"
	BootstrapFailedReason            = "BootstrapFailed"
	BootstrapInterruptedReason       = "BootstrapInterrupted"
	SSHUnreachableReason             = "SSHUnreachable"
	SSHUnauthorizedReason            = "SSHUnauthorized"
	SSHKeyMissingReason              = "SSHKeyMissing"
	HostTakenReason                  = "HostTaken"
	HostInUseReason                  = "HostInUse"
	HostNotCleanedReason             = "HostNotCleaned"
	CacheIncompleteReason            = "CacheIncomplete"
)

// Reasons of a Job that ended without a word from its pod.
const (
	DeadlineReason      = "DeadlineExceeded"
	OutOfMemoryReason   = "OutOfMemory"
	EvictedReason       = "PodEvicted"
	NodeLostReason      = "NodeLost"
	KilledReason        = "PodKilled"
	ImageReason         = "ImageUnavailable"
	ResultMissingReason = "ResultMissing"
	ResultInvalidReason = "ResultInvalid"
	JobGoneReason       = "JobGone"
	PodPendingReason    = "PodPending"
	// PodNotCreatedReason: the Job exists, and Kubernetes has created no pod for it.
	PodNotCreatedReason = "PodNotCreated"
	NodeSilentReason    = "NodeSilent"
)

// Reasons for which no Job can be made.
const (
	NamespaceTerminatingReason = "NamespaceTerminating"
	JobRefusedReason           = "JobRefused"
)
