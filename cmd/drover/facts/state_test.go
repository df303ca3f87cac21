package facts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/state"
)

func TestParseState(t *testing.T) {
	for name, c := range map[string]struct {
		data     map[string]string
		mayExist bool
		problems int
	}{
		"empty":             {data: nil},
		"empty keys":        {data: map[string]string{state.ServerKey: ""}},
		"intent":            {data: map[string]string{state.JournalKey: `{"operation":"create","attempt":1,"phase":"Intent"}`}, mayExist: true},
		"gone":              {data: map[string]string{state.JournalKey: `{"operation":"remove","attempt":1,"phase":"Gone"}`}},
		"taken over":        {data: map[string]string{state.ExtractedConfigKey: "tar"}, mayExist: true},
		"server only":       {data: map[string]string{state.ServerKey: `{"instanceID":"4711"}`}, mayExist: true},
		"unreadable":        {data: map[string]string{state.JournalKey: `{`}, mayExist: true, problems: 1},
		"unknown phase":     {data: map[string]string{state.JournalKey: `{"phase":"Nirvana"}`}, mayExist: true, problems: 1},
		"bad result, gone ": {data: map[string]string{state.ResultKey: `[]`, state.JournalKey: `{"phase":"Gone"}`}, mayExist: true, problems: 1},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			got := facts.ParseState("s", data)
			require.Equal(t, c.mayExist, got.ServerMayExist)
			require.Len(t, got.Problems, c.problems)
		})
	}
}

func TestParseStateKeepsNoSecret(t *testing.T) {
	got := facts.ParseState("s", map[string][]byte{
		state.SSHPrivateKeyKey: []byte("MARKER"), state.ExtractedConfigKey: []byte("MARKER"),
	})
	shown, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(shown), "MARKER")
	require.False(t, got.NoKey)
	require.True(t, facts.ParseState("s", map[string][]byte{state.ServerKey: []byte(`{"sshHost":"198.18.0.11"}`)}).NoKey)
	require.False(t, facts.ParseState("s", map[string][]byte{state.ExtractedConfigKey: []byte("no archive")}).NoKey, "which is not known")
}

func TestParseStateReadsDocuments(t *testing.T) {
	got := facts.ParseState("web-1-machine-state", map[string][]byte{
		state.JournalKey: []byte(`{"operation":"create","attempt":2,"phase":"Bootstrapped","instanceName":"web-1"}`),
		state.ServerKey:  []byte(`{"instanceID":"4711","sshUser":"root","sshHost":"198.18.0.11","sshPort":22}`),
		state.ResultKey:  []byte(`{"operation":"create","attempt":2,"outcome":"Failed","reason":"BootstrapFailed","class":"Invalid","serverMayExist":true}`),
		state.LogKey:     []byte("one\ntwo\n"),
		"empty":          nil,
	})
	require.Equal(t, &facts.State{
		Name: "web-1-machine-state", ServerMayExist: true, NoKey: true, Log: "one\ntwo\n",
		Journal: &state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseBootstrapped, InstanceName: "web-1"},
		Server:  &state.Server{InstanceID: "4711", SSHUser: "root", SSHHost: "198.18.0.11", SSHPort: 22},
		Result:  &state.Result{Operation: state.Create, Attempt: 2, Outcome: state.Failed, Reason: "BootstrapFailed", Class: "Invalid", ServerMayExist: true},
	}, got)
	require.False(t, got.IsTakenOver())
}

func TestParseStateTellsWhatCannotBeRead(t *testing.T) {
	got := facts.ParseState("web-1-machine-state", map[string][]byte{
		state.JournalKey: []byte(`{"phase":"Nirvana"}`), state.ServerKey: []byte(`{"sshPort":70000}`), state.ResultKey: []byte(`{"outcome":"Maybe"}`),
	})
	require.Equal(t, []string{
		"Secret web-1-machine-state: reading server.json: port 70000",
		`Secret web-1-machine-state: reading journal.json: unknown phase "Nirvana"`,
		`Secret web-1-machine-state: reading result.json: unknown outcome "Maybe"`,
	}, got.Problems)
	require.True(t, got.ServerMayExist)
	require.False(t, got.IsTakenOver(), "what cannot be read may be anybody's")
}

func TestIsTakenOver(t *testing.T) {
	require.True(t, facts.ParseState("s", map[string][]byte{state.ExtractedConfigKey: []byte("tar")}).IsTakenOver())
	require.False(t, facts.ParseState("s", map[string][]byte{state.CredentialKey: []byte("{}")}).IsTakenOver(), "a machine before its first Job")
}

func TestParseStateBoundsTheLog(t *testing.T) {
	log := func(text string) string {
		return facts.ParseState("s", map[string][]byte{state.LogKey: []byte(text)}).Log
	}
	line := strings.Repeat("x", 99) + "\n"
	exact := strings.Repeat("x", state.MaxLogBytes)
	require.Equal(t, exact, log(exact))
	require.Equal(t, exact, log("y"+exact), "one long line is cut inside")
	kept := log(strings.Repeat(line, 1000))
	require.Equal(t, strings.Repeat(line, state.MaxLogBytes/100), kept, "lines stay whole")
	euros := log(strings.Repeat("€", state.MaxLogBytes))
	require.Equal(t, strings.Repeat("€", state.MaxLogBytes/3), euros, "characters stay whole")
	require.Equal(t, strings.Repeat("x", state.MaxLogBytes-1)+"\n", log(exact+"\n"), "a last line that is too long is cut inside")
}
