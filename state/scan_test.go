package state_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/state"
)

// report is the result of a scan with these servers, as a pod leaves it.
func report(t *testing.T, servers ...state.ScannedServer) map[string][]byte {
	t.Helper()
	raw, err := json.Marshal(state.Result{Operation: state.Scan, Attempt: 1, Outcome: state.Succeeded, Scan: &state.ScanReport{Servers: servers}})
	require.NoError(t, err)
	return map[string][]byte{state.ResultKey: raw}
}

func TestReadResult_scan(t *testing.T) {
	full := state.ScannedServer{ID: "1", Name: "a name", ProviderID: "digitalocean://1", MachineUID: "u", Machine: "team-a", ClusterUID: "c", Cluster: "c1",
		Created: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	got, err := state.ReadResult(report(t, full), state.ResultKey)
	require.NoError(t, err)
	require.Equal(t, []state.ScannedServer{full}, got.Scan.Servers)
	hostile := full
	hostile.Name = "a\x1b[31mb" + strings.Repeat("x", 2000)
	got, err = state.ReadResult(report(t, hostile), state.ResultKey)
	require.NoError(t, err)
	require.NotContains(t, got.Scan.Servers[0].Name, "\x1b", "a name at the cloud is anybody's words")
	require.Less(t, len(got.Scan.Servers[0].Name), 500)
}

// Three bytes are an object, and an object is as large as its type: it is not made before it is counted.
func TestReadResult_scanOfNothings(t *testing.T) {
	raw := []byte(`{"outcome":"Succeeded","scan":{"servers":[{}` + strings.Repeat(",{}", 299_000) + `]}}`)
	_, err := state.ReadResult(map[string][]byte{state.ResultKey: raw}, state.ResultKey)
	require.ErrorContains(t, err, "more than 20000 objects")
}

// A cloud's clock that is off does not keep the scan from being told: the API takes no year of five digits.
func TestReadResult_scanOfImpossibleTimes(t *testing.T) {
	for _, created := range []string{"9999-12-31T23:59:59-01:00", "1970-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00"} {
		raw := `{"outcome":"Succeeded","scan":{"servers":[{"id":"1","machineUID":"u","created":"` + created + `"}]}}`
		got, err := state.ReadResult(map[string][]byte{state.ResultKey: []byte(raw)}, state.ResultKey)
		require.NoError(t, err)
		require.True(t, got.Scan.Servers[0].Created.IsZero(), created)
	}
}

// What a scan reports is believed whole or not at all: a report cut short would make servers look gone.
func TestReadResult_scans(t *testing.T) {
	server := func(change func(*state.ScannedServer)) []state.ScannedServer {
		s := state.ScannedServer{ID: "1", Name: "m1", MachineUID: "uid", ProviderID: "acme://1"}
		change(&s)
		return []state.ScannedServer{s}
	}
	for name, tt := range map[string]struct {
		report  state.ScanReport
		wantErr string
	}{
		"none":             {state.ScanReport{}, ""},
		"one":              {state.ScanReport{Servers: server(func(*state.ScannedServer) {})}, ""},
		"removed":          {state.ScanReport{Removed: []string{"1"}}, ""},
		"as many as may":   {state.ScanReport{Removed: make([]string, 5000)}, ""},
		"too many":         {state.ScanReport{Removed: make([]string, 5001)}, "more than 5000 servers"},
		"of a place":       {state.ScanReport{Within: "gce://p1/"}, ""},
		"of no place":      {state.ScanReport{Within: "a b"}, "the place it looked at has characters or a length it cannot have"},
		"without an ID":    {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.ID = "" })}, "server 1 has no ID, or names no machine"},
		"of no machine":    {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.MachineUID = "" })}, "server 1 has no ID, or names no machine"},
		"an ID of spaces":  {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.ID = "a b" })}, "server 1 has characters or a length it cannot have"},
		"a line in a UID":  {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.MachineUID = "u\nv" })}, "server 1 has characters or a length it cannot have"},
		"a long ID":        {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.ProviderID = strings.Repeat("x", 600) })}, "server 1 has characters or a length it cannot have"},
		"an accent":        {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.Machine = "é" })}, "server 1 has characters or a length it cannot have"},
		"too many servers": {state.ScanReport{Servers: make([]state.ScannedServer, 5001)}, "more than 5000 servers"},
		"a long cluster":   {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.Cluster = strings.Repeat("c", 513) })}, "server 1 has characters or a length it cannot have"},
		"a strange name":   {state.ScanReport{Servers: server(func(s *state.ScannedServer) { s.Name = "\x1b[31mred" })}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := document(t, state.Result{Operation: state.Scan, Attempt: 1, Outcome: state.Succeeded, Scan: &tt.report})
			result, err := state.ReadResult(map[string][]byte{state.ResultKey: text}, state.ResultKey)
			if tt.wantErr != "" {
				require.ErrorContains(t, err, "reading result.json: "+tt.wantErr)
				require.Nil(t, result.Scan)
				return
			}
			require.NoError(t, err)
			for _, s := range result.Scan.Servers {
				require.NotContains(t, s.Name, "\x1b")
			}
		})
	}
}
