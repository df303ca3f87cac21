package facts

import "time"

// Manager is the state of Drover's manager, as its Lease shows it.
type Manager struct {
	// Namespace of the manager; "drover-system" where no Lease was found.
	Namespace string
	// Version of the leading manager; empty if it did not write one.
	Version string
	// Running reports whether a manager holds and renews the Lease.
	Running bool
	// Seen is the time at which a manager last renewed the Lease; zero if no manager ever did.
	Seen time.Time
}
