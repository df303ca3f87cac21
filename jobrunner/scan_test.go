package jobrunner_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/jobrunner"
)

// report is the result of a scan with these servers, as a pod leaves it.
func report(t *testing.T, servers ...jobrunner.ScannedServer) map[string][]byte {
	t.Helper()
	raw, err := json.Marshal(jobrunner.Result{Operation: jobrunner.Scan, Attempt: 1, Outcome: jobrunner.Succeeded, Scan: &jobrunner.ScanReport{Servers: servers}})
	require.NoError(t, err)
	return map[string][]byte{jobrunner.ResultKey: raw}
}

func TestReadResult_scan(t *testing.T) {
	full := jobrunner.ScannedServer{ID: "1", Name: "a name", ProviderID: "digitalocean://1", MachineUID: "u", Machine: "team-a", ClusterUID: "c", Cluster: "c1",
		Created: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	got, err := jobrunner.ReadResult(report(t, full))
	require.NoError(t, err)
	require.Equal(t, []jobrunner.ScannedServer{full}, got.Scan.Servers)
	hostile := full
	hostile.Name = "a\x1b[31mb" + strings.Repeat("x", 2000)
	got, err = jobrunner.ReadResult(report(t, hostile))
	require.NoError(t, err)
	require.NotContains(t, got.Scan.Servers[0].Name, "\x1b", "a name at the cloud is anybody's words")
	require.Less(t, len(got.Scan.Servers[0].Name), 500)
}

// A cloud's clock that is off does not keep the scan from being told: the API takes no year of five digits.
func TestReadResult_scanOfImpossibleTimes(t *testing.T) {
	for _, created := range []string{"9999-12-31T23:59:59-01:00", "1970-01-01T00:00:00Z", "0000-01-01T00:00:00+01:00"} {
		raw := `{"outcome":"Succeeded","scan":{"servers":[{"id":"1","machineUID":"u","created":"` + created + `"}]}}`
		got, err := jobrunner.ReadResult(map[string][]byte{jobrunner.ResultKey: []byte(raw)})
		require.NoError(t, err)
		require.True(t, got.Scan.Servers[0].Created.IsZero(), created)
	}
}

// What cannot be true is refused as a whole: a report that is cut short would make live servers look gone.
func TestReadResult_scanRefused(t *testing.T) {
	good := jobrunner.ScannedServer{ID: "1", MachineUID: "u"}
	for name, change := range map[string]func(*jobrunner.ScannedServer){
		"no ID":                  func(s *jobrunner.ScannedServer) { s.ID = "" },
		"no machine":             func(s *jobrunner.ScannedServer) { s.MachineUID = "" },
		"a blank in the ID":      func(s *jobrunner.ScannedServer) { s.ID = "1 2" },
		"a line in the UID":      func(s *jobrunner.ScannedServer) { s.MachineUID = "u\nv" },
		"an endless providerID":  func(s *jobrunner.ScannedServer) { s.ProviderID = strings.Repeat("x", 600) },
		"an escape in a Cluster": func(s *jobrunner.ScannedServer) { s.Cluster = "\x1b[2J" },
		"an accent in a machine": func(s *jobrunner.ScannedServer) { s.Machine = "é" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			change(&bad)
			_, err := jobrunner.ReadResult(report(t, good, bad))
			require.ErrorContains(t, err, "server 2")
		})
	}
	many := make([]jobrunner.ScannedServer, 5001)
	for i := range many {
		many[i] = good
	}
	_, err := jobrunner.ReadResult(report(t, many...))
	require.ErrorContains(t, err, "more than 5000 servers")
}

// A scan's objects are named by who asks and belong to no machine: no controller takes them for a machine's.
func TestScanTask(t *testing.T) {
	task := jobrunner.Task{Base: "look", Request: jobrunner.Request{Operation: jobrunner.Scan, Attempt: 2, Namespace: "team", StateSecret: "look-scan-result",
		Driver: jobrunner.DriverRef{Name: "digitalocean", Builtin: true}, CredentialEnv: map[string]string{"TOKEN": "marker"}}}
	require.Equal(t, "look-scan-2", task.Name())
	job := jobrunner.Job(task)
	require.Equal(t, []string{"/machine", "scan"}, job.Spec.Template.Spec.Containers[0].Command)
	require.Equal(t, "look-scan", job.Spec.Template.Spec.ServiceAccountName)
	require.Equal(t, map[string]string{"io.cattle.node_driver.name": "digitalocean", "drover.cattle.io/operation": "scan", "drover.cattle.io/attempt": "2"}, job.Labels)
	role := jobrunner.Role(task)
	require.Equal(t, "look-scan", role.Name)
	require.Len(t, role.Rules, 1)
	require.Equal(t, []string{"look-scan-result"}, role.Rules[0].ResourceNames)
	request, err := jobrunner.RequestSecret(task)
	require.NoError(t, err)
	require.Contains(t, string(request.Data[jobrunner.RequestKey]), "marker")
	require.NotContains(t, job.String(), "marker")
}
