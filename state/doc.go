// Package state is a machine's state Secret, <m>-machine-state: the documents in it, their writers,
// and how to read them.
//
// The pod of a Job writes the driver's machine directory, the keys, the journal, the server, the
// result and the end of the log. The manager writes the claim, the notes, and the end of a Job
// whose pod left no result. The manager, the pod and the CLI read the Secret only through this
// package, which bounds and validates everything that a driver's process may have written.
//
// It is pure, and below sshkeys and jobrunner.
package state
