package v1

// Reasons of events about agents.
const (
	// TokenReplayedReason: a bootstrap token was used by a second agent, which was refused.
	TokenReplayedReason = "TokenReplayed"
)
