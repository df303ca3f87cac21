// Package access is an agent's way to its plan Secret: it registers at the endpoint with a key of its own (api/connect), keeps what was answered on
// disk, renews it, and is the agent's PlanSecret.
//
// It reads the bootstrap token once and the connection file, and writes the key and that file, 0600. TLS is strict: the endpoint is known by the
// certificates it was registered with, or by the system's where there are none, and one of the two is never tried instead of the other. Those of the
// configuration count again when it changes. Nothing here gives up: an agent that was away for weeks has an expired token and its key, and gets in with
// the key.
package access
