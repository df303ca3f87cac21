// Package operation is what runs inside a Job's pod (stage 4): one probe, create or remove, and exit.
//
// It reads the request Secret (a mounted directory) and the state Secret; it writes the state Secret and nothing else. What may
// exist is journaled before it can; the driver runs as a process of its own (package plugin); a server whose id was lost is
// found by tag (package finder). The order of a create is in create.go, that of a remove in remove.go, a probe's three stages
// in probe.go. Next reads the machine controller, through state.ReadResult and ReadServer.
package operation
