package listing

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-project/drover/cmd/drover/facts"
)

// none stands in a cell that has no value, as kubectl's tables have it.
const none = "<none>"

// unknown stands there for an age.
const unknown = "<unknown>"

// MachineTable renders machines as a table; columns of priority 1 are for -o wide.
func MachineTable(machines []Machine, withNamespace bool, now time.Time) *metav1.Table {
	table := newTable(withNamespace, "NAME", "DRIVER", "CLUSTER", "PHASE", "ADDRESS", "AGE", "REASON", "KIND*", "PROVIDER-ID*", "INSTANCE*", "JOB*")
	for _, m := range machines {
		reason := m.Reason
		if next := m.NextAttemptTime; reason != "" && !m.Paused && next != nil && next.After(now) {
			reason += " (retry in " + duration.HumanDuration(next.Sub(now)) + ")"
		}
		cells := []any{
			m.Name, m.Driver, cmp.Or(m.Cluster, none), m.Phase, cmp.Or(m.Address, none), cmp.Or(facts.Age(now, m.Created), unknown), reason,
			m.Kind, cmp.Or(m.ProviderID, none), cmp.Or(m.InstanceName, none), cmp.Or(m.JobName, none),
		}
		addRow(table, cells, m.Namespace, withNamespace)
	}
	return table
}

// DriverTable renders drivers as a table.
func DriverTable(drivers []Driver, now time.Time) *metav1.Table {
	table := newTable(false, "NAME", "DRIVER", "ACTIVE", "READY", "FIELDS", "MACHINE-KIND", "AGE", "REASON", "URL*", "VERSION*")
	for _, d := range drivers {
		cells := []any{
			d.Name, d.Driver, strconv.FormatBool(d.Active), strconv.FormatBool(d.Ready), strconv.Itoa(int(d.Fields)), cmp.Or(d.MachineKind, none),
			cmp.Or(facts.Age(now, d.Created), unknown), d.Reason, cmp.Or(d.URL, none), cmp.Or(d.Version, none),
		}
		addRow(table, cells, "", false)
	}
	return table
}

// ClusterTable renders provisioning Clusters as a table.
func ClusterTable(clusters []Cluster, withNamespace bool, now time.Time) *metav1.Table {
	table := newTable(withNamespace, "NAME", "VERSION", "READY", "POOLS", "UPDATED", "AGE", "REASON", "KUBECONFIG*", "MANAGEMENT-CLUSTER*")
	for _, c := range clusters {
		reason := c.Reason
		if c.Paused {
			reason = clusterv1.PausedReason
		}
		cells := []any{
			c.Name, cmp.Or(c.Version, none), c.Ready, fmt.Sprintf("%d/%d", c.Made, c.Wanted), c.Updated, cmp.Or(facts.Age(now, c.Created), unknown), reason,
			cmp.Or(c.KubeconfigSecret, none), cmp.Or(c.ManagementCluster, none),
		}
		addRow(table, cells, c.Namespace, withNamespace)
	}
	return table
}

// newTable defines the columns of a table; a star marks the columns of -o wide.
func newTable(withNamespace bool, names ...string) *metav1.Table {
	if withNamespace {
		names = append([]string{"NAMESPACE"}, names...)
	}
	table := &metav1.Table{}
	for _, name := range names {
		title, wide := strings.CutSuffix(name, "*")
		column := metav1.TableColumnDefinition{Name: title, Type: "string"}
		if wide {
			column.Priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, column)
	}
	return table
}

func addRow(table *metav1.Table, cells []any, namespace string, withNamespace bool) {
	if withNamespace {
		cells = append([]any{namespace}, cells...)
	}
	for i, cell := range cells {
		// A tab or a line break would make cells and rows of its own.
		if text, ok := cell.(string); ok {
			cells[i] = facts.Clean(text)
		}
	}
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
}
