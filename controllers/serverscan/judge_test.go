package serverscan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// orphan is a server that is provably ours and that no machine knows.
func orphan(change func(*state.ScannedServer)) state.ScannedServer {
	s := state.ScannedServer{ID: "1", Name: "pool-1", ProviderID: "digitalocean://1", MachineUID: "gone", Machine: "team-pool-1",
		ClusterUID: "c-uid", Cluster: "c1", Created: noon.Add(-2 * time.Hour)}
	if change != nil {
		change(&s)
	}
	return s
}

// team is what the API has: one Cluster, one that is being deleted, one machine.
func team() knowledge {
	return knowledge{
		namespace:  "team",
		management: "here", deleted: map[string]bool{"deleted": true}, elsewhere: map[string]bool{"theirs": true},
		uids:        map[string]string{"m-uid": "digitalocean://7", "new": "", "given": "mine://7", "capital": "digitalocean://AB"},
		providerIDs: map[string]bool{"digitalocean://7": true},
		names:       map[string]bool{"team-web": true},
		clusters:    map[string]bool{"c-uid": false, "going": true},
		here:        map[string]string{"web": "digitalocean://7"},
	}
}

func TestVerdict(t *testing.T) {
	type server = state.ScannedServer
	for name, c := range map[string]struct {
		change  func(*server)
		verdict string
		message string
		known   bool
	}{
		"an orphan":                              {nil, rkev1.VerdictOrphan, "no machine has it", false},
		"its machine has no providerID yet":      {func(s *server) { s.MachineUID = "new" }, "", "", true},
		"its machine's server":                   {func(s *server) { s.MachineUID, s.ProviderID = "m-uid", "digitalocean://7" }, "", "", true},
		"its machine has another server":         {func(s *server) { s.MachineUID = "m-uid" }, rkev1.VerdictUncertain, "its machine has another server", false},
		"the user gave its machine's providerID": {func(s *server) { s.MachineUID = "given" }, "", "", true},
		"a providerID in other letters":          {func(s *server) { s.MachineUID, s.ProviderID = "capital", "digitalocean://ab" }, "", "", true},
		"two machines' tags and IDs, crosswise":  {func(s *server) { s.MachineUID, s.ProviderID = "capital", "digitalocean://7" }, "", "", true},
		"a machine has it, by another UID":       {func(s *server) { s.ProviderID = "digitalocean://7" }, "", "", true},
		"another management cluster:":            {func(s *server) { s.ClusterUID = "elsewhere" }, rkev1.VerdictUncertain, "not in this namespace", false},
		"tagged here":                            {func(s *server) { s.Management = "here" }, rkev1.VerdictOrphan, "", false},
		"tagged by another management cluster":   {func(s *server) { s.Management = "there" }, rkev1.VerdictUncertain, "another management cluster:", false},
		"of a deleted Cluster, made there":       {func(s *server) { s.ClusterUID, s.Management = "deleted", "there" }, rkev1.VerdictUncertain, "another management cluster:", false},
		"of a deleted Cluster, without the tag":  {func(s *server) { s.ClusterUID = "deleted" }, rkev1.VerdictUncertain, "moved or deleted", false},
		"of a deleted Cluster":                   {func(s *server) { s.ClusterUID, s.Management = "deleted", "here" }, rkev1.VerdictOrphan, "no machine has it", false},
		"of one that may have been moved":        {func(s *server) { s.ClusterUID, s.Management = "went", "here" }, rkev1.VerdictUncertain, "--deleted-cluster went", false},
		"of another namespace's Cluster":         {func(s *server) { s.ClusterUID, s.Management = "theirs", "here" }, rkev1.VerdictUncertain, "in another namespace", false},
		"of another namespace's deleted one": {func(s *server) { s.ClusterUID, s.Management, s.Machine = "deleted", "here", "other-pool-1" }, rkev1.VerdictUncertain,
			"in another namespace", false},
		"a Cluster that is being deleted":        {func(s *server) { s.ClusterUID = "going" }, rkev1.VerdictUncertain, "being deleted", false},
		"made by hand, with half of our tags":    {func(s *server) { s.ClusterUID = "" }, rkev1.VerdictUncertain, "names its Cluster", false},
		"a machine of that name, from a backup":  {func(s *server) { s.Machine = "team-web" }, rkev1.VerdictUncertain, "restored from a backup", false},
		"a tag for the name that is missing":     {func(s *server) { s.Machine = "" }, rkev1.VerdictUncertain, "restored from a backup", false},
		"a cloud that tells no time":             {func(s *server) { s.Created = time.Time{} }, rkev1.VerdictUncertain, "report its age", false},
		"young":                                  {func(s *server) { s.Created = noon.Add(-59 * time.Minute) }, rkev1.VerdictYoung, "younger than 1h0m0s", false},
		"as old as it must be":                   {func(s *server) { s.Created = noon.Add(-time.Hour) }, rkev1.VerdictOrphan, "", false},
		"a clock that is ahead":                  {func(s *server) { s.Created = noon.Add(time.Hour) }, rkev1.VerdictYoung, "", false},
		"no providerID is nobody's":              {func(s *server) { s.ProviderID = "" }, rkev1.VerdictOrphan, "", false},
		"its machine exists, its Cluster is not": {func(s *server) { s.MachineUID, s.ClusterUID = "new", "elsewhere" }, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			k := team()
			k.providerIDs[""] = true
			server := orphan(c.change)
			verdict, message := k.verdict(server, crowdOf(state.ScanReport{Servers: []state.ScannedServer{server}}), noon, time.Hour)
			require.Equal(t, c.known, verdict == "")
			require.Equal(t, c.verdict, verdict, message)
			require.Contains(t, message, c.message)
		})
	}
}

// TestJudge_besides: the cloud made two servers for one create. The one without the agent may go.
func TestJudge_besides(t *testing.T) {
	type server = state.ScannedServer
	for name, c := range map[string]struct {
		change  func(k *knowledge, recorded, further *server)
		verdict string
	}{
		"the agent runs on the recorded server": {func(*knowledge, *server, *server) {}, rkev1.VerdictOrphan},
		"young":                                 {func(_ *knowledge, _, f *server) { f.Created = noon }, rkev1.VerdictYoung},
		"the agent is not known":                {func(k *knowledge, _, _ *server) { clear(k.agentServers) }, rkev1.VerdictUncertain},
		"an agent runs on the further server":   {func(k *knowledge, _, _ *server) { k.agentServers["1"] = true }, rkev1.VerdictUncertain},
		"the recorded server is not listed":     {func(_ *knowledge, r, _ *server) { r.ProviderID = "digitalocean://8" }, rkev1.VerdictUncertain},
		"the recorded server is another's":      {func(_ *knowledge, r, _ *server) { r.MachineUID = "new" }, rkev1.VerdictUncertain},
		"its age is not known":                  {func(_ *knowledge, _, f *server) { f.Created = time.Time{} }, rkev1.VerdictUncertain},
		"its Cluster is being deleted":          {func(_ *knowledge, _, f *server) { f.ClusterUID = "going" }, rkev1.VerdictUncertain},
		"its Cluster is not here":               {func(_ *knowledge, _, f *server) { f.ClusterUID = "theirs" }, rkev1.VerdictUncertain},
		"another management cluster's":          {func(_ *knowledge, _, f *server) { f.Management = "there" }, rkev1.VerdictUncertain},
		"copies have the tags":                  {func(k *knowledge, _, _ *server) { k.driver = "vmwarevsphere" }, rkev1.VerdictUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			k := team()
			k.driver, k.agentServers = "digitalocean", map[string]bool{"7": true}
			recorded := orphan(func(s *server) {
				s.ID, s.ProviderID, s.MachineUID, s.Machine = "7", "digitalocean://7", "m-uid", "team-web"
			})
			further := orphan(func(s *server) { s.MachineUID, s.Machine = "m-uid", "team-web" })
			c.change(&k, &recorded, &further)
			got, targets := k.judge(state.ScanReport{Servers: []server{recorded, further}}, noon, time.Hour)
			at := slices.IndexFunc(got.Servers, func(s rkev1.ScannedServerStatus) bool { return s.ID == "1" })
			require.NotEqual(t, -1, at)
			require.Equal(t, c.verdict, got.Servers[at].Verdict, got.Servers[at].Message)
			var want []jobrunner.ScanTarget
			if c.verdict == rkev1.VerdictOrphan {
				want = []jobrunner.ScanTarget{{ID: "1", MachineUID: "m-uid", Beside: "7"}}
			}
			require.Equal(t, want, targets)
		})
	}
}

// A clone, or a backup that was restored, has the parameters of the virtual machine that it was made from.
func TestVerdict_clones(t *testing.T) {
	long := "a-machine-pool-of-a-long-name-1"
	short, err := jobrunner.InstanceName(long, 15)
	require.NoError(t, err)
	for name, c := range map[string]struct{ driver, machine, server, verdict string }{
		"as it was made":                 {"vmwarevsphere", "team-pool-1", "pool-1", rkev1.VerdictOrphan},
		"made with a name cut short":     {"vmwarevsphere", "team-" + long, short, rkev1.VerdictOrphan},
		"a clone":                        {"vmwarevsphere", "team-pool-1", "pool-1-clone", rkev1.VerdictUncertain},
		"a clone with a shorter name":    {"vmwarevsphere", "team-pool-1", "pool", rkev1.VerdictUncertain},
		"a clone of one cut short":       {"vmwarevsphere", "team-" + long, short + "0", rkev1.VerdictUncertain},
		"a machine elsewhere":            {"vmwarevsphere", "other-pool-1", "pool-1", rkev1.VerdictUncertain},
		"a cloud whose copies have none": {"digitalocean", "team-pool-1", "renamed", rkev1.VerdictOrphan},
	} {
		t.Run(name, func(t *testing.T) {
			k := team()
			k.driver = c.driver
			report := state.ScanReport{Servers: []state.ScannedServer{orphan(func(s *state.ScannedServer) { s.Machine, s.Name = c.machine, c.server })}}
			got, targets := k.judge(report, noon, time.Hour)
			require.Equal(t, c.verdict, got.Servers[0].Verdict, got.Servers[0].Message)
			require.Equal(t, c.verdict == rkev1.VerdictOrphan, len(targets) == 1)
		})
	}
}

// Of two servers that are alike in what must be unique nobody knows which is the copy.
func TestJudge_copies(t *testing.T) {
	type server = state.ScannedServer
	for name, c := range map[string]struct {
		change  func(*server)
		message string
	}{
		"one machine's UID":            {func(s *server) { s.ID, s.ProviderID = "2", "digitalocean://2" }, "the same machine"},
		"one ID":                       {func(s *server) { s.MachineUID = "gone-too" }, "the same ID"},
		"one ID, and that a machine's": {func(s *server) { s.MachineUID = "new" }, "the same ID"},
	} {
		t.Run(name, func(t *testing.T) {
			got, targets := team().judge(state.ScanReport{Servers: []server{orphan(nil), orphan(c.change)}}, noon, time.Hour)
			require.Empty(t, targets)
			require.Zero(t, got.Orphans)
			require.Zero(t, got.Known)
			require.Len(t, got.Servers, 2)
			for _, s := range got.Servers {
				require.Equal(t, rkev1.VerdictUncertain, s.Verdict)
				require.Contains(t, s.Message, c.message)
			}
		})
	}
}

// A machine whose own server is in a place that nobody looked at tells nothing of the one that was found.
func TestJudge_anotherPlace(t *testing.T) {
	k := team()
	k.uids["m-uid"] = "gce://p2/z/a"
	report := state.ScanReport{Within: "gce://p1/", Servers: []state.ScannedServer{
		orphan(func(s *state.ScannedServer) { s.MachineUID, s.ProviderID = "m-uid", "gce://p1/z/a" })}}
	got, _ := k.judge(report, noon, time.Hour)
	require.EqualValues(t, 1, got.Known)
	k.uids["m-uid"] = "gce://p1/z/b"
	got, _ = k.judge(report, noon, time.Hour)
	require.Equal(t, rkev1.VerdictUncertain, got.Servers[0].Verdict)
}

func TestJudge(t *testing.T) {
	type server = state.ScannedServer
	report := state.ScanReport{Servers: []state.ScannedServer{
		orphan(func(s *server) { s.ID, s.Name, s.ClusterUID = "4", "other", "elsewhere" }),
		orphan(func(s *server) { s.ID, s.Name, s.MachineUID, s.Created = "3", "young", "gone-3", noon }),
		orphan(func(s *server) { s.ID, s.Name, s.MachineUID = "2", "b", "gone-2" }),
		orphan(func(s *server) { s.ID, s.Name, s.MachineUID = "1", "a", "gone-1" }),
		orphan(func(s *server) { s.ID, s.ProviderID, s.MachineUID = "7", "digitalocean://7", "m-uid" }),
		orphan(func(s *server) { s.ID, s.Name = "9", "z" }),
	}, Removed: []string{"9"}}
	got, targets := team().judge(report, noon, time.Hour)
	require.EqualValues(t, 1, got.Known)
	require.EqualValues(t, 2, got.Orphans)
	require.Equal(t, []jobrunner.ScanTarget{{ID: "2", MachineUID: "gone-2"}, {ID: "1", MachineUID: "gone-1"}}, targets)
	require.Empty(t, got.MachinesNotListed)
	var order []string
	for _, s := range got.Servers {
		order = append(order, s.Verdict+" "+s.Name)
	}
	require.Equal(t, []string{"Orphan a", "Orphan b", "Removed z", "Young young", "Uncertain other"}, order)
	require.Equal(t, rkev1.ScannedServerStatus{ID: "1", Name: "a", MachineUID: "gone-1", Machine: "team-pool-1", Cluster: "c1",
		Created: &metav1.Time{Time: noon.Add(-2 * time.Hour)}, Verdict: "Orphan", Message: "no machine has it"}, got.Servers[0])
}

// A machine that its cloud does not list is told of, and nothing more.
func TestJudge_notListed(t *testing.T) {
	got, targets := team().judge(state.ScanReport{}, noon, time.Hour)
	require.Equal(t, []string{"web"}, got.MachinesNotListed)
	require.Empty(t, targets)
	require.Empty(t, got.Servers)
}

// Where nobody looked, nothing is missing.
func TestJudge_notListed_elsewhere(t *testing.T) {
	k := team()
	k.here = map[string]string{"here": "gce://p1/z/a", "elsewhere": "gce://p2/z/b", "there": "gce://p1/z/c"}
	report := state.ScanReport{Within: "gce://p1/", Servers: []state.ScannedServer{orphan(func(s *state.ScannedServer) { s.ProviderID = "gce://p1/z/c" })}}
	got, _ := k.judge(report, noon, time.Hour)
	require.Equal(t, []string{"here"}, got.MachinesNotListed)
	report.Within = "gce:///"
	got, _ = k.judge(report, noon, time.Hour)
	require.Empty(t, got.MachinesNotListed)
}

// The status is bounded; what is removed is not.
func TestJudge_bounded(t *testing.T) {
	var report state.ScanReport
	k := team()
	for i := range 2 * maxListed {
		report.Servers = append(report.Servers, orphan(func(s *state.ScannedServer) { s.ID, s.MachineUID = fmt.Sprint(i), fmt.Sprint("gone-", i) }))
		k.here[fmt.Sprint(i)] = fmt.Sprintf("digitalocean://x%d", i)
	}
	got, targets := k.judge(report, noon, time.Hour)
	require.Len(t, got.Servers, maxListed)
	require.Len(t, got.MachinesNotListed, maxListed)
	require.Len(t, targets, 2*maxListed)
	require.EqualValues(t, 2*maxListed, got.Orphans)
}

// A server is reported as gone if it was listed before, by a credential that lists others, or if
// two scans missed it: a health check may replace it.
func TestExistence(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, c := range []struct {
		was                    metav1.ConditionStatus
		listed, others, missed bool
		want                   metav1.ConditionStatus
	}{
		{"", true, true, false, yes}, {unknown, true, false, false, yes}, {no, true, true, false, yes}, {yes, true, true, false, yes},
		{"", false, true, false, unknown}, {unknown, false, true, false, unknown}, {unknown, false, false, false, unknown},
		{yes, false, true, false, no}, {no, false, true, false, no}, {no, false, false, false, no},
		{yes, false, false, false, yes},
		{"", false, false, true, no}, {unknown, false, false, true, no}, {unknown, true, false, true, yes},
	} {
		got, reason, _ := sighting{was: c.was, listed: c.listed, account: c.others, missed: c.missed}.existence()
		require.Equal(t, c.want, got, "%+v", c)
		require.NotEmpty(t, reason)
	}
}

// TestNext over all that there is: nothing is removed before the first Job's list is there, nor twice.
func TestNext(t *testing.T) {
	for _, p := range []phase{notBegun, looking, removing} {
		for _, s := range []attempt.State{attempt.Unclaimed, attempt.Claimed, attempt.Running, attempt.Succeeded, attempt.Failed} {
			for bits := range 1 << 2 {
				listed, reported := bits&1 != 0, bits&2 != 0
				want := map[attempt.State]action{attempt.Unclaimed: giveUp, attempt.Claimed: giveUp, attempt.Running: awaitJob, attempt.Succeeded: refuseVersion, attempt.Failed: giveUp}[s]
				if s == attempt.Succeeded && reported {
					want = conclude
				}
				if s == attempt.Claimed && p == removing && listed {
					want = makeRemoval
				}
				if p == notBegun {
					want = begin
				}
				require.Equal(t, want, next(p, s, listed, reported), "%v %v %v %v", p, s, listed, reported)
			}
		}
	}
}
