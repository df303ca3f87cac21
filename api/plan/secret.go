package plan

import "strconv"

// SecretType is the type of a plan Secret.
const SecretType = "rke.cattle.io/machine-plan"

// SecretName is the name of the plan Secret of an RKEBootstrap's machine, and of the
// ServiceAccount, Role and RoleBinding of its agent.
func SecretName(bootstrap string) string { return bootstrap + "-machine-plan" }

// Keys of a plan Secret's data.
const (
	// KeyPlan holds the Plan as JSON.
	KeyPlan = "plan"
	// KeyAppliedPlan is a copy of the plan whose checksum the agent reported as applied.
	KeyAppliedPlan = "appliedPlan"
	// KeyState holds a State; a planner of the old protocol never writes it.
	KeyState = "plan-state"
	// KeyRevision counts how often the agent has taken up a pending plan.
	KeyRevision = "plan-revision"
	// KeyMaxFailures bounds the attempts at one plan, as Attempts reads it.
	KeyMaxFailures = "max-failures"
	// KeyFailureThreshold is after how many failures Rancher's planner calls a plan failed. No
	// agent reads it.
	KeyFailureThreshold = "failure-threshold"
	// KeyProbePeriod is the seconds between two rounds of probes; 5 when left out.
	KeyProbePeriod = "probe-period-seconds"
	// KeyAppliedChecksum and KeyFailedChecksum identify the plan that succeeded or failed last.
	KeyAppliedChecksum = "applied-checksum"
	KeyFailedChecksum  = "failed-checksum"
	// KeyAppliedOutput and KeyFailedOutput hold the saved output of instructions, in the format of
	// EncodeOutput.
	KeyAppliedOutput = "applied-output"
	KeyFailedOutput  = "failed-output"
	// KeyPeriodicOutput holds the output of periodic instructions, in the format of EncodeOutput.
	KeyPeriodicOutput = "applied-periodic-output"
	// KeyFailureCount and KeySuccessCount count attempts at the plan that stands, KeyLastApplyTime
	// is the last one's time (time.UnixDate, UTC).
	KeyFailureCount  = "failure-count"
	KeySuccessCount  = "success-count"
	KeyLastApplyTime = "last-apply-time"
	// KeyProbeStatuses holds a map of names to ProbeStatus as JSON. Planners delete it when they
	// deliver a plan.
	KeyProbeStatuses = "probe-statuses"
	// KeyAgentStatus holds an AgentStatus as JSON. It is ours alone; no other agent writes it.
	KeyAgentStatus = "agent-status"
	// KeyAgentPublicKey is the ed25519 public key, base64, of the agent that registered
	// (api/connect). Ours alone.
	KeyAgentPublicKey = "agent-public-key"
	// KeyTokenUsed is the hash of the bootstrap token by which that agent registered. Ours alone.
	KeyTokenUsed = "bootstrap-token-used"
	// KeyTokenHash is the hash of the bootstrap token that is good for one agent (api/connect);
	// gone once the agent has reported. Ours alone.
	KeyTokenHash = "bootstrap-token-hash"
)

// State is how far the plan that stands has come.
type State string

// States of a plan. An agent acts on pending and in-progress only; any other word it does not know
// is an end to it.
const (
	// StateNone is the old protocol: the checksums are the state.
	StateNone State = ""
	// StatePending orders the agent to apply the plan from its beginning.
	StatePending State = "pending"
	// StateInProgress is one that the agent has taken up. It stays so while a failed attempt waits
	// for the next.
	StateInProgress State = "in-progress"
	StateSucceeded  State = "succeeded"
	// StateFailed says that no attempt is left.
	StateFailed State = "failed"
	// StateCanceled is reserved.
	StateCanceled State = "canceled"
)

// States are all states of a plan.
func States() []State {
	return []State{StateNone, StatePending, StateInProgress, StateSucceeded, StateFailed, StateCanceled}
}

// DefaultAttempts at a plan of the newer protocol that does not set them.
const DefaultAttempts = 1

// Attempts is how often the agent may try a plan; Unlimited for any number, which max-failures says
// by -1. Where that is left out, is 0 or cannot be read it is once, or under the old protocol any
// number.
func Attempts(data map[string][]byte) int {
	switch n, err := strconv.Atoi(string(data[KeyMaxFailures])); {
	case err == nil && n > 0:
		return n
	case err == nil && n < 0 || State(data[KeyState]) == StateNone:
		return Unlimited
	}
	return DefaultAttempts
}

// Unlimited attempts.
const Unlimited = -1
