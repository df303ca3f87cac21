package serverscan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// orphan is a server that is provably ours and that no machine knows.
func orphan(change func(*jobrunner.ScannedServer)) jobrunner.ScannedServer {
	s := jobrunner.ScannedServer{ID: "1", Name: "pool-1", ProviderID: "digitalocean://1", MachineUID: "gone", Machine: "team-pool-1",
		ClusterUID: "c-uid", Cluster: "c1", Created: noon.Add(-2 * time.Hour)}
	if change != nil {
		change(&s)
	}
	return s
}

// team is what the API has: one Cluster, one that is being deleted, one machine.
func team() knowledge {
	return knowledge{
		uids:        map[string]bool{"m-uid": true},
		providerIDs: map[string]bool{"digitalocean://7": true},
		names:       map[string]bool{"team-web": true},
		clusters:    map[string]bool{"c-uid": false, "going": true},
		here:        map[string]string{"web": "digitalocean://7"},
	}
}

func TestVerdict(t *testing.T) {
	type server = jobrunner.ScannedServer
	for name, c := range map[string]struct {
		change  func(*server)
		verdict string
		message string
		known   bool
	}{
		"an orphan":                              {nil, rkev1.VerdictOrphan, "no machine knows it", false},
		"its machine exists":                     {func(s *server) { s.MachineUID = "m-uid" }, "", "", true},
		"a machine has it, by another UID":       {func(s *server) { s.ProviderID = "digitalocean://7" }, "", "", true},
		"another management cluster's":           {func(s *server) { s.ClusterUID = "elsewhere" }, rkev1.VerdictUncertain, "not in this namespace", false},
		"a Cluster that is being deleted":        {func(s *server) { s.ClusterUID = "going" }, rkev1.VerdictUncertain, "being deleted", false},
		"made by hand, with half of our tags":    {func(s *server) { s.ClusterUID = "" }, rkev1.VerdictUncertain, "names its Cluster", false},
		"a machine of that name, from a backup":  {func(s *server) { s.Machine = "team-web" }, rkev1.VerdictUncertain, "restored from a backup", false},
		"a tag for the name that is missing":     {func(s *server) { s.Machine = "" }, rkev1.VerdictUncertain, "restored from a backup", false},
		"a cloud that tells no time":             {func(s *server) { s.Created = time.Time{} }, rkev1.VerdictUncertain, "how old", false},
		"young":                                  {func(s *server) { s.Created = noon.Add(-59 * time.Minute) }, rkev1.VerdictYoung, "younger than 1h0m0s", false},
		"as old as it must be":                   {func(s *server) { s.Created = noon.Add(-time.Hour) }, rkev1.VerdictOrphan, "", false},
		"a clock that is ahead":                  {func(s *server) { s.Created = noon.Add(time.Hour) }, rkev1.VerdictYoung, "", false},
		"no providerID is nobody's":              {func(s *server) { s.ProviderID = "" }, rkev1.VerdictOrphan, "", false},
		"its machine exists, its Cluster is not": {func(s *server) { s.MachineUID, s.ClusterUID = "m-uid", "elsewhere" }, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := team()
			k.providerIDs[""] = true
			verdict, message, known := k.verdict(orphan(c.change), noon, time.Hour)
			require.Equal(t, c.known, known)
			require.Equal(t, c.verdict, verdict, message)
			require.Contains(t, message, c.message)
		})
	}
}

func TestJudge(t *testing.T) {
	type server = jobrunner.ScannedServer
	report := jobrunner.ScanReport{Servers: []jobrunner.ScannedServer{
		orphan(func(s *server) { s.ID, s.Name, s.ClusterUID = "4", "other", "elsewhere" }),
		orphan(func(s *server) { s.ID, s.Name, s.Created = "3", "young", noon }),
		orphan(func(s *server) { s.ID, s.Name = "2", "b" }),
		orphan(func(s *server) { s.ID, s.Name = "1", "a" }),
		orphan(func(s *server) { s.ID, s.ProviderID, s.MachineUID = "7", "digitalocean://7", "m-uid" }),
		orphan(func(s *server) { s.ID, s.Name = "9", "z" }),
	}, Removed: []string{"9"}}
	got := team().judge(report, noon, time.Hour)
	require.EqualValues(t, 1, got.known)
	require.EqualValues(t, 2, got.orphans)
	require.Equal(t, []jobrunner.ScanTarget{{ID: "2", MachineUID: "gone"}, {ID: "1", MachineUID: "gone"}}, got.targets)
	require.Empty(t, got.notListed)
	var order []string
	for _, s := range got.servers {
		order = append(order, s.Verdict+" "+s.Name)
	}
	require.Equal(t, []string{"Orphan a", "Orphan b", "Removed z", "Young young", "Uncertain other"}, order)
	require.Equal(t, rkev1.ScannedServerStatus{ID: "1", Name: "a", MachineUID: "gone", Machine: "team-pool-1", Cluster: "c1",
		Created: &metav1.Time{Time: noon.Add(-2 * time.Hour)}, Verdict: "Orphan", Message: "no machine knows it"}, got.servers[0])
}

// A machine that its cloud does not list is told of, and nothing more.
func TestJudge_notListed(t *testing.T) {
	got := team().judge(jobrunner.ScanReport{}, noon, time.Hour)
	require.Equal(t, []string{"web"}, got.notListed)
	require.Empty(t, got.targets)
	require.Empty(t, got.servers)
}

// Where nobody looked, nothing is missing.
func TestJudge_notListed_elsewhere(t *testing.T) {
	k := team()
	k.here = map[string]string{"here": "gce://p1/z/a", "elsewhere": "gce://p2/z/b", "there": "gce://p1/z/c"}
	report := jobrunner.ScanReport{Within: "gce://p1/", Servers: []jobrunner.ScannedServer{orphan(func(s *jobrunner.ScannedServer) { s.ProviderID = "gce://p1/z/c" })}}
	require.Equal(t, []string{"here"}, k.judge(report, noon, time.Hour).notListed)
	report.Within = "gce:///"
	require.Empty(t, k.judge(report, noon, time.Hour).notListed)
}

// The status is bounded; what is removed is not.
func TestJudge_bounded(t *testing.T) {
	var report jobrunner.ScanReport
	k := team()
	for i := range 2 * maxListed {
		report.Servers = append(report.Servers, orphan(func(s *jobrunner.ScannedServer) { s.ID = fmt.Sprint(i) }))
		k.here[fmt.Sprint(i)] = fmt.Sprintf("digitalocean://x%d", i)
	}
	got := k.judge(report, noon, time.Hour)
	require.Len(t, got.servers, maxListed)
	require.Len(t, got.notListed, maxListed)
	require.Len(t, got.targets, 2*maxListed)
	require.EqualValues(t, 2*maxListed, got.orphans)
}
