// Package state is a machine's state Secret, <m>-machine-state: the documents in it, who writes which, and how they are read.
//
// The pod of a Job writes the driver's machine directory, the keys, the journal, the server, the result and the end of the log;
// the manager writes the claim, the notes and how a Job ended whose pod left no result. Manager, pod and CLI read it, through
// this package only: it bounds what a driver's process may have written before anything of it is believed.
//
// It is pure, and below sshkeys and jobrunner.
package state
