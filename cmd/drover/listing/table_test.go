package listing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// cell is what a column shows in the first row of a table.
func cell(t *testing.T, table *metav1.Table, column string) string {
	t.Helper()
	require.Len(t, table.Rows[0].Cells, len(table.ColumnDefinitions))
	for i, definition := range table.ColumnDefinitions {
		if definition.Name == column {
			text, ok := table.Rows[0].Cells[i].(string)
			require.True(t, ok)
			return text
		}
	}
	require.Fail(t, "no such column", column)
	return ""
}

func TestReasonColumn(t *testing.T) {
	at := func(d time.Duration) *time.Time { when := now.Add(d); return &when }
	for name, c := range map[string]struct {
		machine listing.Machine
		want    string
	}{
		"ready":                  {listing.Machine{Ready: true}, ""},
		"waits":                  {listing.Machine{Reason: "BootstrapSecretMissing"}, "BootstrapSecretMissing"},
		"again soon":             {listing.Machine{Reason: "WaitingForRetry", NextAttemptTime: at(90 * time.Second)}, "WaitingForRetry (retry in 90s)"},
		"again later":            {listing.Machine{Reason: "WaitingForRetry", NextAttemptTime: at(30 * time.Hour)}, "WaitingForRetry (retry in 30h)"},
		"due":                    {listing.Machine{Reason: "WaitingForRetry", NextAttemptTime: at(0)}, "WaitingForRetry"},
		"overdue":                {listing.Machine{Reason: "WaitingForRetry", NextAttemptTime: at(-time.Hour)}, "WaitingForRetry"},
		"ready after an attempt": {listing.Machine{Ready: true, NextAttemptTime: at(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, cell(t, listing.MachineTable([]listing.Machine{c.machine}, false, now), "REASON"))
		})
	}
}

func TestAgeColumn(t *testing.T) {
	of := func(created time.Time) string {
		machine := cell(t, listing.MachineTable([]listing.Machine{{Created: created}}, true, now), "AGE")
		require.Equal(t, machine, cell(t, listing.DriverTable([]listing.Driver{{Created: created}}, now), "AGE"))
		return machine
	}
	require.Equal(t, "<unknown>", of(time.Time{}))
	require.Equal(t, "0s", of(now))
	require.Equal(t, "119s", of(now.Add(-119*time.Second)))
	require.Equal(t, "3d4h", of(now.Add(-76*time.Hour)))
	require.Equal(t, "0s", of(now.Add(time.Minute)), "the clock of whoever asks may be behind")
}

// TestEmptyCells: a row must be readable by words, so that only the last of the columns that are always shown may be empty.
func TestEmptyCells(t *testing.T) {
	machines := listing.MachineTable([]listing.Machine{{Name: "a", Driver: "d", Phase: "Pending", Kind: "DMachine"}}, false, now)
	require.Equal(t, []any{"a", "d", "<none>", "Pending", "<none>", "<unknown>", "", "DMachine", "<none>", "<none>", "<none>"}, machines.Rows[0].Cells)
	drivers := listing.DriverTable([]listing.Driver{{Name: "a", Driver: "d"}}, now)
	require.Equal(t, []any{"a", "d", "false", "false", "0", "<none>", "<unknown>", "", "<none>", "<none>"}, drivers.Rows[0].Cells)
}

func TestDriverSummary(t *testing.T) {
	driver := func(change func(*v3.NodeDriver)) listing.Driver {
		d := v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "nd-1", CreationTimestamp: metav1.NewTime(now)}}
		change(&d)
		return listing.NewDriverList([]v3.NodeDriver{d}).Items[0]
	}
	for name, c := range map[string]struct {
		change func(*v3.NodeDriver)
		want   listing.Driver
	}{
		"unseen": {func(*v3.NodeDriver) {}, listing.Driver{Name: "nd-1", Driver: "nd-1", Created: now}},
		"ready": {func(d *v3.NodeDriver) {
			d.Spec.DisplayName, d.Spec.Active, d.Spec.Version, d.Spec.URL = "cloud", true, "v1", "https://h.example/d"
			d.Status.MachineKind, d.Status.Fields, d.Status.Conditions = "CloudMachine", 7, conditions("Ready=True/Ready/not shown")
		}, listing.Driver{Name: "nd-1", Driver: "cloud", Active: true, Ready: true, Fields: 7, MachineKind: "CloudMachine", URL: "https://h.example/d", Version: "v1", Created: now}},
		"not ready": {func(d *v3.NodeDriver) {
			d.Spec.Active, d.Status.Conditions = true, conditions("Valid=True/Valid/", "Ready=False/ChecksumMismatch/other file")
		},
			listing.Driver{Name: "nd-1", Driver: "nd-1", Active: true, Reason: "ChecksumMismatch", Message: "other file", Created: now}},
		"being probed": {func(d *v3.NodeDriver) { d.Status.Conditions = conditions("Ready=Unknown/Probing/at work") },
			listing.Driver{Name: "nd-1", Driver: "nd-1", Reason: "Probing", Message: "at work", Created: now}},
		"built in": {func(d *v3.NodeDriver) { d.Spec.Builtin, d.Spec.URL = true, "local://" },
			listing.Driver{Name: "nd-1", Driver: "nd-1", Builtin: true, URL: "local://", Created: now}},
		"a password": {func(d *v3.NodeDriver) { d.Spec.URL = "https://user:MARKER@h.example/d?x=1" },
			listing.Driver{Name: "nd-1", Driver: "nd-1", URL: "https://user:xxxxx@h.example/d?x=1", Created: now}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, driver(c.change))
		})
	}
}

func TestDriversAreSorted(t *testing.T) {
	var drivers []v3.NodeDriver
	for _, name := range []string{"b", "a", "a-1", "A"} {
		drivers = append(drivers, v3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	var order []string
	for _, d := range listing.NewDriverList(drivers).Items {
		order = append(order, d.Name)
	}
	require.Equal(t, []string{"A", "a", "a-1", "b"}, order)
	require.JSONEq(t, `{"apiVersion":"cli.drover.cattle.io/v1","kind":"DriverList","items":[]}`, document(t, listing.NewDriverList(nil)))
}

// TestWideColumns: what is not for every day comes last, and only when asked for.
func TestWideColumns(t *testing.T) {
	for _, table := range []*metav1.Table{listing.MachineTable(nil, false, now), listing.MachineTable(nil, true, now), listing.DriverTable(nil, now), listing.ServerTable(nil, true, now)} {
		wide := false
		for _, definition := range table.ColumnDefinitions {
			require.False(t, wide && definition.Priority == 0, "%s comes after a wide column", definition.Name)
			require.Equal(t, strings.ToUpper(definition.Name), definition.Name)
			require.NotContains(t, definition.Name, "*")
			wide = definition.Priority > 0
		}
		require.True(t, wide)
	}
}
