package clouds

import "strings"

// NodeDriver is a NodeDriver that exists from the start: every built-in driver, and the external
// ones Rancher knows. Source of names, credential fields, file fields, addresses and checksums:
// Rancher Provisioning V2, pkg/data/management/machinedriver_data.go. The only differences are
// further secret fields and further optional keys.
type NodeDriver struct {
	// Name of the object, if it differs from the driver's.
	Name string
	// Description for people.
	Description string
	// Active from the start; AddCredential that users are offered to make a credential.
	Active, AddCredential bool
	// Plugin is the binary; empty for a built-in driver.
	Plugin Plugin
	// Hosts that the driver talks to.
	Hosts []string
	// Public, Private and Optional are fields of the credential: fields that may be shown, secret
	// fields, and fields of both kinds that may be omitted. Passwords are secret but do not belong
	// to the credential.
	Public, Private, Optional, Passwords []string
	// Defaults replace the driver's own.
	Defaults map[string]string
	// Files are fields whose content the user gives, with the driver's field that takes a path.
	Files map[string]string
}

// Plugin is the binary of an external driver.
type Plugin struct {
	// URL with {arch} for the architecture, as Go names it.
	URL string
	// Checksums by architecture.
	Checksums map[string]string
}

// For returns the address and checksum for an architecture. An architecture without its own binary
// gets the one for amd64, and an error when it does not run.
func (p Plugin) For(arch string) (url, checksum string) {
	if p.Checksums[arch] == "" {
		arch = "amd64"
	}
	return strings.ReplaceAll(p.URL, "{arch}", arch), p.Checksums[arch]
}
