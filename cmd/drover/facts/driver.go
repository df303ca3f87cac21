package facts

import (
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// DriverName is the driver behind a machine kind: what its NodeDriver says, else the kind without its suffix.
func DriverName(kind string, drivers []v3.NodeDriver) string {
	if d := DriverOf(kind, drivers); d != nil {
		return d.DriverName()
	}
	return strings.ToLower(strings.TrimSuffix(kind, machineSuffix))
}

// DriverOf is the NodeDriver whose machines are of a kind, or nil.
func DriverOf(kind string, drivers []v3.NodeDriver) *v3.NodeDriver {
	for i := range drivers {
		if drivers[i].Status.MachineKind == kind {
			return &drivers[i]
		}
	}
	return nil
}
