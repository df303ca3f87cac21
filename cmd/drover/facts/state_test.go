package facts_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/jobrunner"
)

func TestParseState(t *testing.T) {
	for name, c := range map[string]struct {
		data     map[string]string
		mayExist bool
		problems int
		keys     []string
	}{
		"empty":             {data: nil},
		"empty keys":        {data: map[string]string{jobrunner.ServerKey: ""}},
		"intent":            {data: map[string]string{jobrunner.JournalKey: `{"operation":"create","attempt":1,"phase":"Intent"}`}, mayExist: true, keys: []string{"journal.json"}},
		"gone":              {data: map[string]string{jobrunner.JournalKey: `{"operation":"remove","attempt":1,"phase":"Gone"}`}, keys: []string{"journal.json"}},
		"taken over":        {data: map[string]string{jobrunner.ExtractedConfigKey: "tar"}, mayExist: true, keys: []string{"extractedConfig"}},
		"server only":       {data: map[string]string{jobrunner.ServerKey: `{"instanceID":"4711"}`}, mayExist: true, keys: []string{"server.json"}},
		"unreadable":        {data: map[string]string{jobrunner.JournalKey: `{`}, mayExist: true, problems: 1, keys: []string{"journal.json"}},
		"unknown phase":     {data: map[string]string{jobrunner.JournalKey: `{"phase":"Nirvana"}`}, mayExist: true, problems: 1, keys: []string{"journal.json"}},
		"bad result, gone ": {data: map[string]string{jobrunner.ResultKey: `[]`, jobrunner.JournalKey: `{"phase":"Gone"}`}, mayExist: true, problems: 1, keys: []string{"journal.json", "result.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range c.data {
				data[key] = []byte(value)
			}
			state := facts.ParseState("s", data)
			require.Equal(t, c.mayExist, state.ServerMayExist)
			require.Len(t, state.Problems, c.problems)
			require.Equal(t, c.keys, state.Keys)
		})
	}
}

func TestParseStateKeepsNoSecret(t *testing.T) {
	state := facts.ParseState("s", map[string][]byte{
		jobrunner.SSHPrivateKeyKey: []byte("MARKER"), jobrunner.ExtractedConfigKey: []byte("MARKER"),
	})
	shown, err := json.Marshal(state)
	require.NoError(t, err)
	require.NotContains(t, string(shown), "MARKER")
	require.True(t, state.Has(jobrunner.SSHPrivateKeyKey))
}

func TestStateOfNothing(t *testing.T) {
	var none *facts.State
	require.False(t, none.Has("x"))
	require.False(t, (&facts.State{}).Has(""))
	require.False(t, (&facts.State{}).IsTakenOver())
}

func TestParseStateReadsDocuments(t *testing.T) {
	state := facts.ParseState("web-1-machine-state", map[string][]byte{
		jobrunner.JournalKey: []byte(`{"operation":"create","attempt":2,"phase":"Bootstrapped","instanceName":"web-1"}`),
		jobrunner.ServerKey:  []byte(`{"instanceID":"4711","sshUser":"root","sshHost":"198.18.0.11","sshPort":22}`),
		jobrunner.ResultKey:  []byte(`{"operation":"create","attempt":2,"outcome":"Failed","reason":"BootstrapFailed","class":"Invalid","serverMayExist":true}`),
		jobrunner.LogKey:     []byte("one\ntwo\n"),
		"empty":              nil,
	})
	require.Equal(t, &facts.State{
		Name: "web-1-machine-state", Keys: []string{"journal.json", "log.txt", "result.json", "server.json"}, ServerMayExist: true, Log: "one\ntwo\n",
		Journal: &jobrunner.Journal{Operation: jobrunner.Create, Attempt: 2, Phase: jobrunner.PhaseBootstrapped, InstanceName: "web-1"},
		Server:  &jobrunner.Server{InstanceID: "4711", SSHUser: "root", SSHHost: "198.18.0.11", SSHPort: 22},
		Result:  &jobrunner.Result{Operation: jobrunner.Create, Attempt: 2, Outcome: jobrunner.Failed, Reason: "BootstrapFailed", Class: "Invalid", ServerMayExist: true},
	}, state)
	require.False(t, state.IsTakenOver())
}

func TestParseStateTellsWhatCannotBeRead(t *testing.T) {
	state := facts.ParseState("web-1-machine-state", map[string][]byte{
		jobrunner.JournalKey: []byte(`{"phase":"Nirvana"}`), jobrunner.ServerKey: []byte(`{"sshPort":70000}`), jobrunner.ResultKey: []byte(`{"outcome":"Maybe"}`),
	})
	require.Equal(t, []string{
		"Secret web-1-machine-state: reading server.json: port 70000",
		`Secret web-1-machine-state: reading journal.json: unknown phase "Nirvana"`,
		`Secret web-1-machine-state: reading result.json: unknown outcome "Maybe"`,
	}, state.Problems)
	require.True(t, state.ServerMayExist)
	require.False(t, state.IsTakenOver(), "what cannot be read may be anybody's")
}

func TestIsTakenOver(t *testing.T) {
	require.True(t, facts.ParseState("s", map[string][]byte{jobrunner.ExtractedConfigKey: []byte("tar")}).IsTakenOver())
	require.False(t, facts.ParseState("s", map[string][]byte{jobrunner.CredentialKey: []byte("{}")}).IsTakenOver(), "a machine before its first Job")
}

func TestParseStateBoundsTheLog(t *testing.T) {
	log := func(text string) string {
		return facts.ParseState("s", map[string][]byte{jobrunner.LogKey: []byte(text)}).Log
	}
	line := strings.Repeat("x", 99) + "\n"
	exact := strings.Repeat("x", jobrunner.MaxLogBytes)
	require.Equal(t, exact, log(exact))
	require.Equal(t, exact, log("y"+exact), "one long line is cut inside")
	kept := log(strings.Repeat(line, 1000))
	require.Equal(t, strings.Repeat(line, jobrunner.MaxLogBytes/100), kept, "lines stay whole")
	euros := log(strings.Repeat("€", jobrunner.MaxLogBytes))
	require.Equal(t, strings.Repeat("€", jobrunner.MaxLogBytes/3), euros, "characters stay whole")
	require.Equal(t, strings.Repeat("x", jobrunner.MaxLogBytes-1)+"\n", log(exact+"\n"), "a last line that is too long is cut inside")
}

func TestParseStateNamesTheSecretInEveryProblem(t *testing.T) {
	check := func(journal, result, server, log []byte) {
		state := facts.ParseState("s", map[string][]byte{
			jobrunner.JournalKey: journal, jobrunner.ResultKey: result, jobrunner.ServerKey: server, jobrunner.LogKey: log,
		})
		require.LessOrEqual(t, len(state.Log), jobrunner.MaxLogBytes)
		for _, problem := range state.Problems {
			require.True(t, strings.HasPrefix(problem, "Secret s: "))
		}
	}
	check([]byte(`{"operation":"create","attempt":1,"phase":"Intent"}`), []byte(`{"outcome":"Failed"}`), []byte(`{"sshPort":22}`), []byte("log"))
}
