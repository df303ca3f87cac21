package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

type data map[string][]byte

// with is a copy in which pairs of key and value are other; "-" deletes.
func (d data) with(pairs ...string) data {
	out := data{}
	maps.Copy(out, d)
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = []byte(pair[1])
		if pair[1] == "-" {
			delete(out, pair[0])
		}
	}
	return out
}

func TestMayWrite(t *testing.T) {
	pending := data{plan.KeyPlan: []byte("{}"), plan.KeyState: []byte("pending"), plan.KeyRevision: []byte("3")}
	taken := pending.with(plan.KeyState, "in-progress", plan.KeyRevision, "4")
	for name, tt := range map[string]struct {
		writer        plan.Writer
		before, after data
		refused       string
	}{
		"the agent takes a plan up":             {plan.Agent, pending, taken, ""},
		"it says that it is done":               {plan.Agent, taken, taken.with(plan.KeyState, "succeeded", plan.KeyAppliedChecksum, "x"), ""},
		"it says that it failed":                {plan.Agent, taken, taken.with(plan.KeyState, "failed", plan.KeyFailureCount, "1"), ""},
		"it empties what is not there":          {plan.Agent, pending, pending.with(plan.KeyFailedOutput, ""), ""},
		"it skips taking it up":                 {plan.Agent, pending, pending.with(plan.KeyState, "succeeded"), "from \"pending\" to \"succeeded\""},
		"it orders itself":                      {plan.Agent, taken, taken.with(plan.KeyState, "pending"), "from \"in-progress\" to \"pending\""},
		"it takes up again what was applied":    {plan.Agent, taken.with(plan.KeyState, "succeeded"), taken.with(plan.KeyRevision, "5"), ""},
		"it tries again what had failed":        {plan.Agent, taken.with(plan.KeyState, "failed"), taken, "from \"failed\""},
		"it forgets the state":                  {plan.Agent, taken, taken.with(plan.KeyState, "-"), "to \"\""},
		"it brings the new protocol in":         {plan.Agent, pending.with(plan.KeyState, "-"), taken, "from \"\""},
		"its revision goes back":                {plan.Agent, taken, taken.with(plan.KeyRevision, "2"), "does not go back"},
		"it writes a plan":                      {plan.Agent, taken, taken.with(plan.KeyPlan, `{"error":"x"}`), `"plan"`},
		"it gives itself more attempts":         {plan.Agent, taken, taken.with(plan.KeyMaxFailures, "-1"), `"max-failures"`},
		"it brings another's key in":            {plan.Agent, taken, taken.with(plan.KeyAgentPublicKey, "x"), `"agent-public-key"`},
		"it uses the Secret for something else": {plan.Agent, taken, taken.with("notes", "x"), `"notes"`},
		"the planner delivers": {plan.Planner, taken.with(plan.KeyProbeStatuses, "{}"),
			taken.with(plan.KeyPlan, `{"error":"x"}`, plan.KeyState, "pending"), ""},
		"the planner says that it succeeded":   {plan.Planner, taken, taken.with(plan.KeyState, "succeeded"), "to \"succeeded\""},
		"the planner makes a probe healthy":    {plan.Planner, taken, taken.with(plan.KeyProbeStatuses, "{}"), "never sets it"},
		"the planner counts failures":          {plan.Planner, taken, taken.with(plan.KeyFailureCount, "0"), `"failure-count"`},
		"the endpoint registers an agent":      {plan.Endpoint, pending, pending.with(plan.KeyAgentPublicKey, "x"), ""},
		"the endpoint delivers":                {plan.Endpoint, pending, pending.with(plan.KeyPlan, "x"), `"plan"`},
		"a stranger":                           {"stranger", pending, pending.with(plan.KeyRevision, "9"), `"plan-revision"`},
		"an agent of the old protocol reports": {plan.Agent, pending.with(plan.KeyState, "-"), pending.with(plan.KeyState, "-", plan.KeyAppliedChecksum, "x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := plan.MayWrite(tt.writer, tt.before, tt.after)
			if tt.refused == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.refused)
			}
		})
	}
	require.Contains(t, plan.KeysOf(plan.Agent), plan.KeyAgentStatus)
	require.Equal(t, []string{plan.KeyAgentPublicKey, plan.KeyTokenUsed}, plan.KeysOf(plan.Endpoint))
	require.Equal(t, []plan.State{plan.StateInProgress}, plan.Transitions(plan.StatePending))
}

func TestAttempts(t *testing.T) {
	for _, tt := range []struct {
		state, failures, threshold string
		want                       int
	}{
		{"pending", "", "", 1},
		{"pending", "0", "0", 1},
		{"pending", "5", "", 5},
		{"pending", "5", "3", 5},
		{"pending", "3", "5", 3},
		{"pending", "1", "-1", 1},
		{"pending", "-1", "1", plan.Unlimited}, // Rancher's, of every plan without an operation
		{"pending", "", "4", 1},
		{"pending", "-1", "-1", plan.Unlimited},
		{"pending", "-1", "", plan.Unlimited},
		{"pending", "many", "", 1},
		{"", "", "", plan.Unlimited},
		{"", "2", "", 2},
		{"", "0", "3", plan.Unlimited},
	} {
		d := data{plan.KeyState: []byte(tt.state), plan.KeyMaxFailures: []byte(tt.failures), plan.KeyFailureThreshold: []byte(tt.threshold)}
		require.Equal(t, tt.want, plan.Attempts(d), "%+v", tt)
	}
}
