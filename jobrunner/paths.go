package jobrunner

// The paths that the manager and the pod agree on.
const (
	// Command is the binary in the image; its first argument is the operation, and for a probe the
	// second is the stage.
	Command = "/machine"
	// HomeDir is the HOME of the pod's user and writable.
	HomeDir = "/home/machine"
	// CADir holds the further CA certificates, if any; it is the last entry of SSL_CERT_DIR.
	CADir = "/run/drover/ca"

	// FetchedDir is written by the first stage of a probe (the verified binary) and only read by
	// the others.
	FetchedDir = "/run/drover/fetched"
	// FlagsDir is written by the second stage of a probe, in which the unknown driver runs, and
	// only read by the last. It is separate from FetchedDir so that a driver cannot change the
	// report about its binary.
	FlagsDir = "/run/drover/flags"
)

// Stages of a probe, one container each, in their order.
const (
	// StageFetch downloads, verifies and caches the binary. It has a token, and no driver code runs
	// in it.
	StageFetch = "fetch"
	// StageFlags runs the driver to read its flags. It has no token.
	StageFlags = "flags"
	// StageReport writes the result Secret. It has a token, and no driver code runs in it.
	StageReport = "report"
)

// UserID is the user and group that every container runs as.
const UserID = 1000
