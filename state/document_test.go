package state_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

var (
	begin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	end   = begin.Add(time.Minute)
)

// documents are one of each kind, with every field set.
func documents() map[string]any {
	return map[string]any{
		"result": state.Result{Operation: state.Remove, Attempt: 3, Outcome: state.Failed, Reason: "DriverFailed", Class: "Quota",
			Message: "no room", ServerMayExist: true, Recorded: "ServerID srv-1", Notes: []string{"n"}, StartTime: begin, EndTime: end},
		"journal": state.Journal{Operation: state.Create, Attempt: 2, Phase: state.PhaseRecorded, InstanceName: "pool1-abc", Driver: "acme", Time: begin},
		"server": state.Server{InstanceID: "1", ProviderID: "acme://1", Addresses: []state.Address{{Type: "ExternalIP", Address: "198.18.0.7"}},
			SSHUser: "root", SSHHost: "198.18.0.7", SSHPort: 22, FailureDomain: "zone-a"},
		"credential": state.Credential{Name: "cloud", Version: "uid/7", Env: map[string]string{"ACME_TOKEN": "t"}, Files: map[string][]byte{"acme-key": []byte("k")}},
		"probe":      state.ProbeReport{Digest: "d", Flags: []byte(`[]`)},
	}
}

// A manager and a pod of two versions talk to each other while one of them is upgraded: the form of what they say is fixed here.
func TestDocuments_goldenForms(t *testing.T) {
	for name, document := range documents() {
		t.Run(name, func(t *testing.T) {
			text, err := json.MarshalIndent(document, "", "  ")
			require.NoError(t, err)
			golden.Require(t, filepath.Join("testdata", "document-"+name+".json"), string(text)+"\n")
		})
	}
}

// What the manager reads back is what the pod wrote, when that is as it should be.
func TestDocuments_roundTrip(t *testing.T) {
	all := documents()
	result, err := state.ReadResult(map[string][]byte{state.ResultKey: document(t, all["result"])}, state.ResultKey)
	require.NoError(t, err)
	require.Equal(t, all["result"], result)
	journal, err := state.ReadJournal(map[string][]byte{state.JournalKey: document(t, all["journal"])})
	require.NoError(t, err)
	require.Equal(t, all["journal"], journal)
	server, err := state.ReadServer(map[string][]byte{state.ServerKey: document(t, all["server"])})
	require.NoError(t, err)
	require.Equal(t, all["server"], server)
}
