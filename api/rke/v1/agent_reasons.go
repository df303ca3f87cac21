package v1

// DataSecretAvailableCondition of an RKEBootstrap is True when the Secret with its script is there; the name is the one that Cluster API's own
// bootstrap provider has for it.
const DataSecretAvailableCondition = "DataSecretAvailable"

// Reasons of an RKEBootstrap's conditions, beside those that machines and control planes have, and of events about agents.
const (
	DataSecretAvailableReason = "Available"
	// ServerURLMissingReason: the manager does not know by which address servers reach it.
	ServerURLMissingReason = "ServerURLMissing"
	// ControlPlaneForeignReason: the Cluster has another provider's control plane.
	ControlPlaneForeignReason = "ControlPlaneForeign"
	// TokenReplayedReason: a bootstrap token was used by a second agent, which was refused.
	TokenReplayedReason = "TokenReplayed"
)
