package v3

// Conditions of a NodeDriver. Polarity is positive; each is absent until its step was reached.
const (
	// ReadyCondition is True when the driver's kinds are served and agree with the driver; it sums
	// up the others.
	ReadyCondition = "Ready"
	// ValidCondition is True when the spec is well formed; it carries the warning about weak
	// checksums.
	ValidCondition = "Valid"
	// DownloadedCondition is True when the binary was downloaded, verified and cached; True at once
	// for built-in drivers.
	DownloadedCondition = "Downloaded"
	// InstalledCondition is True when the driver answered with its flags.
	InstalledCondition = "Installed"
	// SchemaCompatibleCondition is False when a change of the driver would drop or retype a field
	// that machines use; the old kinds stay. It carries the warnings about annotations.
	SchemaCompatibleCondition = "SchemaCompatible"
	// ActiveCondition is True when the kinds are established in the API.
	ActiveCondition = "Active"
)

// Reasons of a NodeDriver's conditions.
const (
	ReadyReason        = "Ready"
	InactiveReason     = "Inactive"
	InvalidReason      = "Invalid"
	ValidReason        = "Valid"
	DownloadedReason   = "Downloaded"
	InstalledReason    = "Installed"
	CompatibleReason   = "Compatible"
	WeakChecksumReason = "WeakChecksum"
	// DoubtfulAnnotationsReason: an annotation matches no flag of the driver, or one is missing
	// that says how it takes user data.
	DoubtfulAnnotationsReason = "DoubtfulAnnotations"
	BuiltinReason             = "Builtin"
	UnknownBuiltinReason      = "UnknownBuiltin"
	ProbingReason             = "Probing"
	ProbeFailedReason         = "ProbeFailed"
	DownloadFailedReason      = "DownloadFailed"
	ChecksumMismatchReason    = "ChecksumMismatch"
	NotADriverReason          = "NotADriver"
	DriverUnresponsiveReason  = "DriverUnresponsive"
	// TooLargeReason: a download, an archive or a binary exceeds its bound.
	TooLargeReason = "TooLarge"
	// WrongArchitectureReason: the binary is for another kind of computer.
	WrongArchitectureReason = "WrongArchitecture"
	// DynamicallyLinkedReason: the binary needs a libc, and the image it runs in has none.
	DynamicallyLinkedReason  = "DynamicallyLinked"
	FlagsInvalidReason       = "FlagsInvalid"
	SchemaIncompatibleReason = "SchemaIncompatible"
	NameTakenReason          = "NameTaken"
	EstablishedReason        = "Established"
	NotEstablishedReason     = "NotEstablished"
	KeptForMachinesReason    = "KeptForMachines"
	DeletionBlockedReason    = "MachinesExist"
	RemovingKindsReason      = "RemovingKinds"
	RancherInstalledReason   = "RancherInstalled"
)

// Conditions of a Cluster, beside ReadyCondition. All are copies of other objects' conditions.
const (
	// ProvisionedCondition is True from the first time that the cluster's API answers.
	ProvisionedCondition = "Provisioned"
	// ConnectedCondition is True while the cluster's API answers the manager.
	ConnectedCondition = "Connected"
	// AgentDeployedCondition is True while the manager reaches the cluster without an agent.
	AgentDeployedCondition = "AgentDeployed"
)
