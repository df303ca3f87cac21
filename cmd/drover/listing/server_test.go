package listing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// scanOf is a ServerScan of a namespace that ended like that.
func scanOf(namespace, credential string, status metav1.ConditionStatus, message string) *rkev1.ServerScan {
	return &rkev1.ServerScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gc-x"},
		Spec:       rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: credential},
		Status: rkev1.ServerScanStatus{
			Conditions: []metav1.Condition{{Type: rkev1.ScanDoneCondition, Status: status, Reason: "X", Message: message}},
			Known:      2, Orphans: 1, MachinesNotListed: []string{"lost"},
			Servers: []rkev1.ScannedServerStatus{
				{ID: "1", Name: "a", MachineUID: "u1", Machine: "team-a", Cluster: "c1", Verdict: rkev1.VerdictOrphan, Message: "why",
					Created: &metav1.Time{Time: time.Date(2026, 3, 1, 10, 0, 0, 0, time.FixedZone("x", 3600))}},
				{ID: "2", MachineUID: "u2", Verdict: rkev1.VerdictRemoved, Message: "gone"},
			},
		},
	}
}

func TestNewScan(t *testing.T) {
	created := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	got := listing.NewScan(scanOf("team", "cred", metav1.ConditionTrue, ""))
	require.Equal(t, listing.Scan{Namespace: "team", Driver: "digitalocean", Credential: "cred", Known: 2, Orphans: 1, MachinesNotListed: []string{"lost"},
		Servers: []listing.Server{
			{ID: "1", Name: "a", MachineUID: "u1", Machine: "team-a", Cluster: "c1", Verdict: "Orphan", Message: "why", Created: &created},
			{ID: "2", MachineUID: "u2", Verdict: "Removed", Message: "gone"},
		}}, got)
	require.Equal(t, "digitalocean, credential cred, namespace team: servers with a machine: 2, orphans: 1, removed: 1 (without what the driver made beside each: its SSH key)", got.Summary())
}

// What failed before the cloud answered tells nothing of servers: who counts on the numbers must see that there are none.
func TestNewScan_failed(t *testing.T) {
	failed := scanOf("team", "cred", metav1.ConditionFalse, "the cloud could not be asked: 401")
	failed.Status = rkev1.ServerScanStatus{Conditions: failed.Status.Conditions}
	got := listing.NewScan(failed)
	require.Equal(t, listing.Scan{Namespace: "team", Driver: "digitalocean", Credential: "cred", Servers: []listing.Server{}, Error: "the cloud could not be asked: 401"}, got)
	require.Equal(t, "digitalocean, credential cred, namespace team: the cloud could not be asked: 401", got.Summary())
	require.Equal(t, "it is not done", listing.NewScan(&rkev1.ServerScan{}).Error)
}

// What was removed is told also when something could not be.
func TestNewScan_failedToRemove(t *testing.T) {
	got := listing.NewScan(scanOf("team", "cred", metav1.ConditionFalse, "not all orphans were removed: a: 403"))
	require.Equal(t, []string{"1 Orphan", "2 Removed"}, []string{got.Servers[0].ID + " " + got.Servers[0].Verdict, got.Servers[1].ID + " " + got.Servers[1].Verdict})
	require.Equal(t, "not all orphans were removed: a: 403", got.Error)
	require.Equal(t, "digitalocean, credential cred, namespace team: servers with a machine: 2, orphans: 1, removed: 1 (without what the driver made beside each: its SSH key); "+
		"not all orphans were removed: a: 403", got.Summary())
}

func TestNewScanList(t *testing.T) {
	list := listing.NewScanList([]listing.Scan{{Namespace: "b"}, {Namespace: "a", Driver: "vmwarevsphere"}, {Namespace: "a", Driver: "digitalocean", Credential: "2"},
		{Namespace: "a", Driver: "digitalocean", Credential: "1"}})
	require.Equal(t, []listing.Scan{{Namespace: "a", Driver: "digitalocean", Credential: "1"}, {Namespace: "a", Driver: "digitalocean", Credential: "2"},
		{Namespace: "a", Driver: "vmwarevsphere"}, {Namespace: "b"}}, list.Items)
	require.Equal(t, "cli.drover.cattle.io/v1 ScanList", list.APIVersion+" "+list.Kind)
	require.NotNil(t, listing.NewScanList(nil).Items, "no scans are an empty list and not null")
}

func TestServerTable(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	scans := []listing.Scan{listing.NewScan(scanOf("team", "cred", metav1.ConditionTrue, ""))}
	table := listing.ServerTable(scans, true, noon)
	var titles []string
	for _, column := range table.ColumnDefinitions {
		titles = append(titles, column.Name)
	}
	require.Equal(t, []string{"NAMESPACE", "ID", "NAME", "DRIVER", "CLUSTER", "MACHINE", "AGE", "VERDICT", "WHY", "MACHINE-UID", "CREDENTIAL"}, titles)
	require.Equal(t, []any{"team", "1", "a", "digitalocean", "c1", "team-a", "3h", "Orphan", "why", "u1", "cred"}, table.Rows[0].Cells)
	require.Equal(t, []any{"team", "2", "<none>", "digitalocean", "<none>", "<none>", "<unknown>", "Removed", "gone", "u2", "cred"}, table.Rows[1].Cells)
	require.Len(t, listing.ServerTable(scans, false, noon).Rows[0].Cells, 10)
	require.Empty(t, listing.ServerTable(nil, false, noon).Rows)
}
