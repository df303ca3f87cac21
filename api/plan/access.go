package plan

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Writer is a writer of a plan Secret.
type Writer string

// The writers of a plan Secret.
const (
	// Planner delivers plans.
	Planner Writer = "planner"
	// Agent reports the results of plans.
	Agent Writer = "agent"
	// Endpoint registers agents.
	Endpoint Writer = "endpoint"
	// Bootstrap makes the plan Secret with its token, and burns the token.
	Bootstrap Writer = "bootstrap provider"
)

// writers maps every key of a plan Secret to its writers, which may set, change or delete it.
var writers = map[string][]Writer{
	KeyPlan:             {Planner},
	KeyAppliedPlan:      {Planner},
	KeyMaxFailures:      {Planner},
	KeyFailureThreshold: {Planner},
	KeyProbePeriod:      {Planner},

	KeyState:         {Planner, Agent}, // the planner writes pending; transitions lists the agent's states
	KeyProbeStatuses: {Planner, Agent}, // the planner only deletes it

	KeyRevision:        {Agent},
	KeyAppliedChecksum: {Agent},
	KeyFailedChecksum:  {Agent},
	KeyAppliedOutput:   {Agent},
	KeyFailedOutput:    {Agent},
	KeyPeriodicOutput:  {Agent},
	KeyFailureCount:    {Agent},
	KeySuccessCount:    {Agent},
	KeyLastApplyTime:   {Agent},
	KeyAgentStatus:     {Agent},

	KeyAgentPublicKey: {Endpoint},
	KeyTokenUsed:      {Endpoint},
	KeyTokenHash:      {Bootstrap},
}

// transitions are the changes of the state that an agent may make.
var transitions = map[State][]State{
	StatePending: {StateInProgress},
	// A Secret from a backup may say that a plan is applied on a host that has another by now: its
	// agent takes it up again.
	StateSucceeded:  {StateInProgress},
	StateInProgress: {StateSucceeded, StateFailed},
}

// KeysOf is every key that a writer may write, sorted.
func KeysOf(w Writer) []string {
	var keys []string
	for key, allowed := range writers {
		if slices.Contains(allowed, w) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Transitions are the states that an agent may put in a state's place.
func Transitions(from State) []State { return slices.Clone(transitions[from]) }

// MayWrite is why a writer may not turn one data into another, or nil.
func MayWrite(w Writer, before, after map[string][]byte) error {
	for _, key := range Changed(before, after) {
		// The reports of an earlier server's agent are removed when another server's agent
		// registers, because it applies the plan from the beginning.
		if w == Endpoint && slices.Contains(writers[key], Agent) && (len(after[key]) == 0 || key == KeyState && State(after[key]) == StatePending) {
			continue
		}
		if !slices.Contains(writers[key], w) {
			return fmt.Errorf("the %s does not write key %q of a plan Secret", w, key)
		}
	}
	return checkChange(w, before, after)
}

// checkChange is why a writer may not put a state, a revision or probes in the place of others, or
// nil.
func checkChange(w Writer, before, after map[string][]byte) error {
	from, to := State(before[KeyState]), State(after[KeyState])
	was, is := number(before[KeyRevision]), number(after[KeyRevision])
	probes, probed := after[KeyProbeStatuses]
	switch {
	case w == Agent && from != to && !slices.Contains(transitions[from], to):
		return fmt.Errorf("an agent does not change the state of a plan from %q to %q", from, to)
	case w == Agent && is < was:
		return fmt.Errorf("the revision of a plan does not go back from %d to %d", was, is)
	case w == Planner && from != to && to != StatePending:
		return fmt.Errorf("a planner does not change the state of a plan from %q to %q", from, to)
	case w == Planner && probed && !bytes.Equal(probes, before[KeyProbeStatuses]):
		return fmt.Errorf("a planner deletes key %q and never sets it", KeyProbeStatuses)
	}
	return nil
}

// Changed are the keys that differ. A key that is empty and one that is not there are the same.
func Changed(before, after map[string][]byte) []string {
	all := map[string][]byte{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	keys := slices.Sorted(maps.Keys(all))
	return slices.DeleteFunc(keys, func(key string) bool { return bytes.Equal(before[key], after[key]) })
}

func number(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}
