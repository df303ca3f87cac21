package listing

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/advice"
	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/cmd/drover/facts"
)

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
func NewDriverList(drivers []v3.NodeDriver) List[Driver] {
	list := List[Driver]{APIVersion, "DriverList", []Driver{}}
	for i := range drivers {
		d := &drivers[i]
		item := Driver{
			Name: d.Name, Driver: d.DriverName(), Builtin: d.Spec.Builtin, Active: d.Spec.Active, Fields: d.Status.Fields,
			MachineKind: d.Status.MachineKind, URL: facts.ShownURL(d.Spec.URL), Version: d.Spec.Version, Created: d.CreationTimestamp.UTC(),
		}
		ready := meta.FindStatusCondition(d.Status.Conditions, v3.ReadyCondition)
		item.Ready = ready != nil && ready.Status == metav1.ConditionTrue
		if ready != nil && !item.Ready {
			item.Reason = ready.Reason
			item.Message, _ = advice.Split(ready.Message)
		}
		list.Items = append(list.Items, item)
	}
	slices.SortFunc(list.Items, func(a, b Driver) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
