package clouds

// Caveat is something that a driver cannot promise, in a sentence for its users.
type Caveat struct {
	Kind CaveatKind
	Text string
}

// CaveatKind is what a caveat is about.
type CaveatKind string

// Kinds of caveats.
const (
	// LateID: the record names the server only after a wait that can fail, so that a failed creation leaves a server without id.
	LateID CaveatKind = "late id"
	// OtherName: the server's name at the cloud is not the machine's.
	OtherName CaveatKind = "other name"
	// KillDestroys: the driver's Kill destroys the server, so that it is never called.
	KillDestroys CaveatKind = "kill destroys"
	// RemoveHitsOthers: the driver's Remove can destroy what is not the machine's.
	RemoveHitsOthers CaveatKind = "remove hits others"
	// Leftovers: the driver's Remove leaves something behind that may cost money.
	Leftovers CaveatKind = "leftovers"
	// NeedsSSH: the driver logs in while it makes the server, so that the Job must reach it.
	NeedsSSH CaveatKind = "needs SSH"
	// Waits: the driver waits without an end of its own; the Job's deadline ends it.
	Waits CaveatKind = "waits"
	// RemoveFailsWhenGone: the driver's Remove fails for a server that is gone; Drover looks at what it says.
	RemoveFailsWhenGone CaveatKind = "remove fails when gone"
	// LateTags: the driver sets tags after the server is made, so that a failed creation leaves one without.
	LateTags CaveatKind = "late tags"
	// Firewall: the server's own firewall lets in less than one may think.
	Firewall CaveatKind = "firewall"
	// Tells: the driver writes secrets or user data to its log or record in a form that must be hidden.
	Tells CaveatKind = "tells"
	// Broken: a part of the driver does not work.
	Broken CaveatKind = "broken"
)
