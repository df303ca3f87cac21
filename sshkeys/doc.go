// Package sshkeys logs in to servers: it has the archive of the driver's machine directory, keys,
// host keys, dialling, running commands, terminals and copying files.
//
// It reads a state Secret's data (AccessFrom) and writes nothing to Kubernetes. The Job
// (jobrunner/operation) uses it to record the host key and to bootstrap, the CLI to log in. A
// recorded host key is verified at every later login.
package sshkeys
