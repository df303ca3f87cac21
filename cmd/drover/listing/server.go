package listing

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Scan is the result of a scan with one credential.
type Scan struct {
	Namespace  string `json:"namespace"`
	Driver     string `json:"driver"`
	Credential string `json:"credential"`
	// Error says why the cloud could not be asked, and the rest is then empty; or why not all
	// orphans were removed.
	Error string `json:"error,omitempty"`
	// Known counts the servers that have a machine, Orphans the remaining servers that have none.
	Known   int32 `json:"known"`
	Orphans int32 `json:"orphans"`
	// Servers that have no machine, or for which this is uncertain.
	Servers []rkev1.ScannedServerStatus `json:"servers"`
	// MachinesNotListed are machines whose server the cloud does not list.
	MachinesNotListed []string `json:"machinesNotListed,omitempty"`
}

// NewScanList heads scans, sorted by namespace, driver and credential.
func NewScanList(scans []Scan) List[Scan] {
	list := List[Scan]{APIVersion, "ScanList", append([]Scan{}, scans...)}
	slices.SortFunc(list.Items, func(a, b Scan) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Credential, b.Credential))
	})
	return list
}

// NewScan sums a ServerScan up that is done.
func NewScan(scan *rkev1.ServerScan) Scan {
	s := Scan{Namespace: scan.Namespace, Driver: scan.Spec.Driver, Credential: scan.Spec.CloudCredentialSecretName, Servers: []rkev1.ScannedServerStatus{}}
	switch done := meta.FindStatusCondition(scan.Status.Conditions, rkev1.ScanDoneCondition); {
	case done == nil:
		s.Error = "it is not done"
		return s
	case done.Status == metav1.ConditionUnknown:
		s.Error = done.Message
		return s
	case done.Status == metav1.ConditionFalse:
		s.Error = done.Message
	}
	s.Known, s.Orphans, s.MachinesNotListed = scan.Status.Known, scan.Status.Orphans, scan.Status.MachinesNotListed
	s.Servers = append(s.Servers, scan.Status.Servers...)
	return s
}

// ServerTable renders the servers of all scans as a table.
func ServerTable(scans []Scan, withNamespace bool, now time.Time) *metav1.Table {
	table := newTable(withNamespace, "ID", "NAME", "DRIVER", "CLUSTER", "MACHINE", "AGE", "VERDICT", "WHY", "MACHINE-UID*", "CREDENTIAL*")
	for _, scan := range scans {
		for _, s := range scan.Servers {
			created := ptr.Deref(s.Created, metav1.Time{}).Time
			addRow(table, []any{s.ID, cmp.Or(s.Name, none), scan.Driver, cmp.Or(s.Cluster, none), cmp.Or(s.Machine, none), cmp.Or(facts.Age(now, created), unknown), s.Verdict, s.Message,
				s.MachineUID, scan.Credential}, scan.Namespace, withNamespace)
		}
	}
	return table
}

// Summary is a scan in one line.
func (s Scan) Summary() string {
	text := s.Driver + ", credential " + s.Credential + ", namespace " + s.Namespace + ": "
	removed := 0
	for _, server := range s.Servers {
		if server.Verdict == rkev1.VerdictRemoved {
			removed++
		}
	}
	if s.Error != "" && len(s.Servers) == 0 {
		return text + s.Error
	}
	text += "servers with a machine: " + strconv.Itoa(int(s.Known)) + ", orphans: " + strconv.Itoa(int(s.Orphans))
	if removed > 0 {
		text += ", removed: " + strconv.Itoa(removed)
		if beside := clouds.Of(s.Driver).Beside; beside != "" {
			text += " (the driver's objects beside each server remain: " + beside + ")"
		}
	}
	if s.Error != "" {
		text += "; " + s.Error
	}
	return text
}
