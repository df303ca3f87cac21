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

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"operation":"create","attempt":1,"phase":"Intent"}`), []byte(`{"outcome":"Failed"}`), []byte(`{"sshPort":22}`), []byte("log"))
	f.Fuzz(func(t *testing.T, journal, result, server, log []byte) {
		state := facts.ParseState("s", map[string][]byte{
			jobrunner.JournalKey: journal, jobrunner.ResultKey: result, jobrunner.ServerKey: server, jobrunner.LogKey: log,
		})
		require.LessOrEqual(t, len(state.Log), jobrunner.MaxLogBytes)
		for _, problem := range state.Problems {
			require.True(t, strings.HasPrefix(problem, "Secret s: "))
		}
	})
}
