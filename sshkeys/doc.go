// Package sshkeys is everything about logging in to a server: the archive in which the driver's machine directory is kept,
// keys, host keys, dialling, running commands, terminals and copying files.
//
// It reads a state Secret's data (AccessFrom) and writes nothing to Kubernetes. The Job (jobrunner/operation) uses it to
// record the host key and to bootstrap, the CLI to log in. A host key that was recorded once is verified ever after.
package sshkeys
