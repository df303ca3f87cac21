package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
)

// What one document says is not lost because another cannot be read, and what cannot be read is never "no server".
func TestState(t *testing.T) {
	for name, tt := range map[string]struct {
		data                  map[string]string
		nothingMade, mayExist bool
	}{
		"no Secret":                 {nothingMade: true},
		"before the first Job":      {data: map[string]string{state.CredentialKey: `{"name":"cloud"}`}, nothingMade: true},
		"an attempt that began not": {data: map[string]string{state.ResultKey: `{"outcome":"Failed"}`, state.LogKey: "x"}, nothingMade: true},
		"asked for a server":        {data: map[string]string{state.JournalKey: `{"phase":"Intent"}`}, mayExist: true},
		"a server":                  {data: map[string]string{state.JournalKey: `{"phase":"Bootstrapped"}`, state.ServerKey: `{}`, state.ExtractedConfigKey: "x"}, mayExist: true},
		"removed":                   {data: map[string]string{state.JournalKey: `{"phase":"Gone"}`, state.ExtractedConfigKey: "x"}},
		"another system's":          {data: map[string]string{state.ExtractedConfigKey: "x"}, mayExist: true},
		"a journal that is none":    {data: map[string]string{state.JournalKey: `{`}, mayExist: true},
		"a server that is none":     {data: map[string]string{state.JournalKey: `{"phase":"Gone"}`, state.ServerKey: `{`}, mayExist: true},
		"a result that is none":     {data: map[string]string{state.ResultKey: `{`}, nothingMade: true, mayExist: true},
	} {
		data := map[string][]byte{}
		for key, text := range tt.data {
			data[key] = []byte(text)
		}
		got := state.Of(data)
		require.Equal(t, tt.nothingMade, got.NothingMade(), name)
		require.Equal(t, tt.mayExist, got.ServerMayExist(), name)
	}
	absent := state.Read(nil)
	require.True(t, absent.Journal.IsAbsent())
	require.False(t, absent.Claimed)
}
