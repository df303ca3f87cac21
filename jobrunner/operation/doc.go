// Package operation runs inside a Job's pod (stage 4): it does one probe, create or remove, and
// exits.
//
// It reads the request Secret (a mounted directory) and the state Secret, and writes only the state
// Secret. The journal records a server before it can exist. The driver runs in its own process
// (package plugin). Package finder finds a server by tag if its ID was lost. See create.go and
// remove.go for the order of their steps, and probe.go for the three stages of a probe. The machine
// controller then reads the result through state.ReadResult and ReadServer.
package operation
