package facts

import (
	"strings"

	v3 "github.com/drover-project/drover/api/management/v3"
)

// DriverName is the driver of a machine kind: the NodeDriver's display name, else the kind without
// its suffix.
func DriverName(kind string, drivers []v3.NodeDriver) string {
	if d := DriverOf(kind, drivers); d != nil {
		return d.DriverName()
	}
	return strings.ToLower(strings.TrimSuffix(kind, machineSuffix))
}

// DriverOf is the NodeDriver whose machines are of a kind, or nil.
func DriverOf(kind string, drivers []v3.NodeDriver) *v3.NodeDriver {
	for i := range drivers {
		// A driver that is not ready has no kind, which no machine is of.
		if kind != "" && drivers[i].Status.MachineKind == kind {
			return &drivers[i]
		}
	}
	return nil
}

// DriverNamed is the NodeDriver a user's word means, or nil: the object of that name, else one
// whose driver is called so. Of several with one driver name it is the one that has the kinds.
func DriverNamed(name string, drivers []v3.NodeDriver) *v3.NodeDriver {
	var found *v3.NodeDriver
	for i := range drivers {
		d := &drivers[i]
		if d.Name == name {
			return d
		}
		if strings.EqualFold(d.DriverName(), name) && (found == nil || found.Status.MachineKind == "") {
			found = d
		}
	}
	return found
}

// ShownURL is a URL as it may be shown: without the password that it may have. It takes anything,
// for a spec that is refused is shown, too.
func ShownURL(text string) string {
	start := strings.Index(text, "//")
	if start < 0 || start > 0 && text[start-1] != ':' {
		return text
	}
	scheme, rest := text[:start+2], text[start+2:]
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return text
	}
	user, _, hasPassword := strings.Cut(authority[:at], ":")
	if !hasPassword {
		return text
	}
	return scheme + user + ":xxxxx" + rest[at:]
}

// ConfigKind is the kind of a driver's Configs, whose machines are of a kind.
func ConfigKind(machineKind string) string {
	return strings.TrimSuffix(machineKind, machineSuffix) + "Config"
}
