// Package admin lets other processes steer a running local cloud: its faults,
// tokens, files and servers, and its ledger to read.
//
// The handler listens on loopback and asks for a secret that only readers of
// the state directory know; the client finds both there. The command
// localcloud and stories that run in another process use the client.
package admin
