package listing

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// DriverList is what `drover get drivers -o json` prints.
type DriverList struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Items      []Driver `json:"items"`
}

// Driver sums one NodeDriver up.
type Driver struct {
	Name        string    `json:"name"`
	Driver      string    `json:"driver"`
	Builtin     bool      `json:"builtin"`
	Active      bool      `json:"active"`
	Ready       bool      `json:"ready"`
	Fields      int32     `json:"fields,omitempty"`
	MachineKind string    `json:"machineKind,omitempty"`
	URL         string    `json:"url,omitempty"`
	Version     string    `json:"version,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Message     string    `json:"message,omitempty"`
	Created     time.Time `json:"created"`
}

// NewDriverList sums NodeDrivers up, sorted by name.
func NewDriverList(drivers []v3.NodeDriver) DriverList {
	list := DriverList{APIVersion: APIVersion, Kind: DriverListKind, Items: []Driver{}}
	for i := range drivers {
		list.Items = append(list.Items, newDriver(&drivers[i]))
	}
	slices.SortFunc(list.Items, func(a, b Driver) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func newDriver(d *v3.NodeDriver) Driver {
	s := Driver{
		Name: d.Name, Driver: d.DriverName(), Builtin: d.Spec.Builtin, Active: d.Spec.Active, Fields: d.Status.Fields,
		MachineKind: d.Status.MachineKind, URL: facts.ShownURL(d.Spec.URL), Version: d.Spec.Version, Created: d.CreationTimestamp.UTC(),
	}
	ready := facts.FindCondition(d.Status.Conditions, v3.ReadyCondition)
	s.Ready = isTrue(ready)
	if ready != nil && !s.Ready {
		s.Reason = ready.Reason
		s.Message, _ = advice.Split(ready.Message)
	}
	return s
}
