package listing_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/listing"
	"github.com/drover-project/drover/testkit/golden"
)

// scan is a ServerScan that found servers.
func scan(namespace, driver string, servers ...rkev1.ScannedServerStatus) *rkev1.ServerScan {
	s := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	s.Spec.Driver, s.Spec.CloudCredentialSecretName = driver, "do-token"
	s.Status.Conditions = conditions(rkev1.ScanDoneCondition + "=True/Done/")
	s.Status.Servers, s.Status.Known = servers, 3
	for _, server := range servers {
		if server.Verdict == rkev1.VerdictOrphan {
			s.Status.Orphans++
		}
	}
	return s
}

func orphan() rkev1.ScannedServerStatus {
	created := metav1.NewTime(now.Add(-26 * time.Hour).In(time.FixedZone("here", 3600)))
	return rkev1.ScannedServerStatus{ID: "4711", Name: "pool-web-1", MachineUID: "uid-1", Machine: "web-1", Cluster: "store", Created: &created, Verdict: rkev1.VerdictOrphan, Message: "no machine has this UID"}
}

func TestScans(t *testing.T) {
	list := listing.NewScanList([]listing.Scan{
		listing.NewScan(scan("shop", "vmwarevsphere")),
		listing.NewScan(scan("shop", "digitalocean", orphan(), rkev1.ScannedServerStatus{ID: "4712", MachineUID: "uid-2", Verdict: rkev1.VerdictRemoved, Message: "removed"})),
		listing.NewScan(scan("edge", "digitalocean", rkev1.ScannedServerStatus{ID: "7", MachineUID: "uid-3", Verdict: "Young", Message: "made 2m ago"})),
	})
	golden.Require(t, "testdata/servers.txt", render(t, listing.ServerTable(list.Items, false, now), false))
	golden.Require(t, "testdata/servers-wide-all.txt", render(t, listing.ServerTable(list.Items, true, now), true))
	golden.Require(t, "testdata/servers.json", document(t, list))
}

func TestScanThatIsNotDone(t *testing.T) {
	for name, c := range map[string]struct{ condition, want string }{
		"not begun": {"", "it is not done"},
		"at work":   {rkev1.ScanDoneCondition + "=Unknown/JobRunning/Job scan-1 is under way", "Job scan-1 is under way"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scan("shop", "digitalocean", orphan())
			s.Status.Conditions = nil
			if c.condition != "" {
				s.Status.Conditions = conditions(c.condition)
			}
			got := listing.NewScan(s)
			require.Equal(t, listing.Scan{Namespace: "shop", Driver: "digitalocean", Credential: "do-token", Error: c.want, Servers: []rkev1.ScannedServerStatus{}}, got,
				"what an unfinished scan lists is not to be believed")
			require.Equal(t, "digitalocean, credential do-token, namespace shop: "+c.want, got.Summary())
		})
	}
}

func TestScanSummary(t *testing.T) {
	of := func(servers ...rkev1.ScannedServerStatus) string {
		_, text, _ := strings.Cut(listing.NewScan(scan("shop", "digitalocean", servers...)).Summary(), ": ")
		return text
	}
	removed := rkev1.ScannedServerStatus{Verdict: rkev1.VerdictRemoved}
	require.Equal(t, "servers with a machine: 3, orphans: 0", of())
	require.Equal(t, "servers with a machine: 3, orphans: 1", of(orphan()))
	require.Equal(t, "servers with a machine: 3, orphans: 1, removed: 2 (the driver's objects beside each server remain: its SSH key)", of(orphan(), removed, removed))
}

func TestScanDocuments(t *testing.T) {
	require.JSONEq(t, `{"apiVersion":"cli.drover.cattle.io/v1","kind":"ScanList","items":[]}`, document(t, listing.NewScanList(nil)))
	raw, err := json.Marshal(listing.NewScan(scan("shop", "digitalocean")))
	require.NoError(t, err)
	require.JSONEq(t, `{"namespace":"shop","driver":"digitalocean","credential":"do-token","known":3,"orphans":0,"servers":[]}`, string(raw))
}

// TestScanOfAHostileCloud: names at a cloud are anybody's.
func TestScanOfAHostileCloud(t *testing.T) {
	server := orphan()
	server.Name, server.Message, server.Created = "web\n1\tORPHAN", "\x1b[31mred\a", nil
	shown := render(t, listing.ServerTable([]listing.Scan{listing.NewScan(scan("shop", "digitalocean", server))}, false, now), false)
	require.Equal(t, "ID     NAME           DRIVER         CLUSTER   MACHINE   AGE         VERDICT   WHY\n"+
		"4711   web 1 ORPHAN   digitalocean   store     web-1     <unknown>   Orphan    red\n", shown)
}

// TestScansAreKept: sorting what is shown must not change what the caller goes on with.
func TestScansAreKept(t *testing.T) {
	given := []listing.Scan{{Namespace: "b"}, {Namespace: "a", Driver: "vmwarevsphere"}, {Namespace: "a", Driver: "digitalocean", Credential: "2"},
		{Namespace: "a", Driver: "digitalocean", Credential: "1"}}
	before := slices.Clone(given)
	require.Equal(t, []listing.Scan{given[3], given[2], given[1], given[0]}, listing.NewScanList(given).Items)
	require.Equal(t, before, given)
}

// TestScanThatFailed: what was removed is told also when something could not be; what failed before the cloud answered tells nothing of servers.
func TestScanThatFailed(t *testing.T) {
	s := scan("shop", "digitalocean", orphan(), rkev1.ScannedServerStatus{Verdict: rkev1.VerdictRemoved})
	s.Status.Conditions, s.Status.MachinesNotListed = conditions(rkev1.ScanDoneCondition+"=False/X/not all orphans were removed: a: 403"), []string{"lost"}
	got := listing.NewScan(s)
	require.Len(t, got.Servers, 2)
	require.Equal(t, []string{"lost"}, got.MachinesNotListed)
	require.Equal(t, "digitalocean, credential do-token, namespace shop: servers with a machine: 3, orphans: 1, "+
		"removed: 1 (the driver's objects beside each server remain: its SSH key); not all orphans were removed: a: 403", got.Summary())

	s.Status = rkev1.ServerScanStatus{Conditions: conditions(rkev1.ScanDoneCondition + "=False/X/the cloud could not be queried: 401")}
	got = listing.NewScan(s)
	require.Equal(t, listing.Scan{Namespace: "shop", Driver: "digitalocean", Credential: "do-token", Servers: []rkev1.ScannedServerStatus{}, Error: "the cloud could not be queried: 401"}, got)
	require.Equal(t, "digitalocean, credential do-token, namespace shop: the cloud could not be queried: 401", got.Summary())
}
